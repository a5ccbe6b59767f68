import HTTPMessages
import Testing

@testable import Edge

@Suite("A stream whose client reads slowly") struct StreamMemoryTests {
    private final class Nobody: ResponderTransport {
        var peer: Peer { .unknown }
        func respond(_ responder: Responder, _ response: HTTPResponse) {}
        func request(of responder: Responder) -> HTTPRequest? { nil }
        func serve(_ responder: Responder) {}
        func openStream(_ responder: Responder, status: Int, fields: [(name: String, value: String)]) {}
        func noteRefused(_ share: UInt64, bodyBytes: Int) {}
        func wake(_ responder: Responder) {}
    }

    private func stream() -> Responder {
        let responder = Responder(transport: Nobody(), streamID: 1)
        responder.state = .streaming
        return responder
    }

    private func read(_ count: Int, of responder: Responder) -> [UInt8] {
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: count) { bytes in
            Array(bytes.prefix(responder.read(into: bytes)))
        }
    }

    @Test("keeps nothing of what it was sent, also where something always waits")
    func taken() {
        let responder = stream()
        weak var third: SharedBytes?
        for number in 0..<200 {
            let chunk = SharedBytes([UInt8(number), 1])
            if number == 2 { third = chunk }
            #expect(responder.write(chunk))
        }
        for number in 0..<10_000 {
            #expect(read(2, of: responder) == [UInt8(number % 200), 1])
            #expect(responder.write(SharedBytes([UInt8(number % 200), 1])))
        }
        #expect(third == nil)
    }

    private func queue(_ count: Int, _ bytes: Int, to responder: Responder) {
        for _ in 0..<count { _ = responder.write(SharedBytes([UInt8](repeating: 0x41, count: bytes))) }
    }

    @Test("keeps what was there a second ago and is in no other stream")
    func kept() {
        let (responder, other) = (stream(), stream())
        let shared = SharedBytes([UInt8](repeating: 0, count: 1000))
        queue(2, 10, to: responder)
        #expect(responder.write(shared) && other.write(shared))
        queue(1, 5, to: responder)
        #expect(responder.keptBytes() == 0)
        queue(7, 100, to: responder)
        #expect(responder.keptBytes() == 25)
        // The first chunk is gone, and the second is begun.
        #expect(read(11, of: responder).count == 11)
        #expect(responder.keptBytes() == 715)
        _ = read(1009, of: responder)
        #expect(responder.keptBytes() == 705)
        _ = read(705, of: responder)
        #expect(responder.keptBytes() == 0)
        queue(1, 7, to: responder)
        #expect(responder.keptBytes() == 0)
    }

    @Test("is ended where too much is kept, before those that keep less")
    func most() {
        let shared = SharedBudget(bytesMax: .max)
        var bytes = KeptBytes(shared, for: nil, bytesMax: 200_000)
        let streams = (0..<4).map { _ in stream() }
        for (responder, count) in zip(streams, [60, 90, 20, 10]) { queue(count, 1000, to: responder) }
        #expect(bytes.sweep(streams).isEmpty, "it was all on its way")
        #expect(bytes.sweep(streams).isEmpty)
        #expect(streams.map(\.countedBytes) == [60_000, 90_000, 20_000, 10_000])
        queue(50, 1000, to: streams[3])
        #expect(bytes.sweep(streams).isEmpty)
        let ended = bytes.sweep(streams)
        #expect(ended.count == 1 && ended.first === streams[1])
        #expect(streams.map(\.countedBytes) == [60_000, 0, 20_000, 60_000])
        #expect(!streams[1].hasQueued)
        for responder in streams { bytes.closed(responder) }
        #expect(shared.bytes == 0)
    }

    @Test("pays for itself, whichever stands first on its connection, and gives back all when it has read")
    func order() {
        let shared = SharedBudget(bytesMax: .max)
        var bytes = KeptBytes(shared, for: nil, bytesMax: 200_000)
        let streams = (0..<3).map { _ in stream() }
        for (responder, count) in zip(streams, [50, 50, 95]) { queue(count, 1000, to: responder) }
        #expect(bytes.sweep(streams).isEmpty && bytes.sweep(streams).isEmpty)
        queue(10, 1000, to: streams[0])
        queue(150, 1000, to: streams[1])
        #expect(bytes.sweep(streams).isEmpty)
        let ended = bytes.sweep(streams)
        #expect(ended.count == 1 && ended.first === streams[1])
        _ = read(60_000, of: streams[0])
        _ = read(75_000, of: streams[2])
        #expect(bytes.sweep(streams).isEmpty)
        #expect(shared.bytes == ByteBudget.stepBytes, "of 20,000 bytes")
        _ = read(20_000, of: streams[2])
        #expect(bytes.sweep(streams).isEmpty && shared.bytes == 0)
        #expect(streams.allSatisfy { !$0.mayKeep })
    }

    @Test("is reset, and its connection goes on")
    func reset() throws {
        let server = try RawServer(.with { $0.streamBytesMax = 200_000 }) { request, responder in
            guard request.target == Array("/listen".utf8) else {
                return responder.respond(HTTPResponse(status: 204))
            }
            responder.openStream(status: 200, fields: [])
            for _ in 0..<60 { _ = responder.write(SharedBytes([UInt8](repeating: 0x41, count: 1000))) }
        }
        defer { server.end() }
        let client = try RawClient(port: server.port)
        client.send(Frames.preface + Frames.setting(4, 0))
        for stream in 0..<10 { client.send(Frames.headers(1 + 2 * stream, "GET", "/listen", isEnd: true)) }
        #expect(client.read { client in Frames.read(client.received).count { $0.kind == 3 } == 7 })
        let resets = Frames.read(client.received).filter { $0.kind == 3 }
        #expect(resets.allSatisfy { Array($0.payload) == [0, 0, 0, 8] })
        client.send(Frames.headers(21, "GET", "/", isEnd: true))
        #expect(client.read { Frames.read($0.received).contains { $0.kind == 1 && $0.stream == 21 } })
        #expect(!client.isClosed)
    }
}
