import HTTPMessages
import Testing

@testable import Edge

@Suite("A stream whose client reads slowly", .serialized) struct StreamMemoryTests {
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

    private func take(_ count: Int, of responder: Responder) -> [UInt8] {
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: count) { bytes in
            guard let base = bytes.baseAddress else { return [] }
            return Array(bytes.prefix(responder.take(base, count)))
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
            #expect(take(2, of: responder) == [UInt8(number % 200), 1])
            #expect(responder.write(SharedBytes([UInt8(number % 200), 1])))
            #expect(responder.queuedBytes == 400)
        }
        #expect(third == nil)
    }

    @Test("counts what waits for it, and gives back what does not any more")
    func counted() {
        let shared = SharedBudget(bytesMax: ByteBudget.stepBytes)
        var budget = ByteBudget(shared, bytesMax: .max)
        let responder = stream()
        let chunk = SharedBytes([UInt8](repeating: 0, count: ByteBudget.freeBytes))
        #expect(responder.write(chunk) && responder.write(chunk))
        #expect(responder.count(in: &budget) && budget.held == 2 * ByteBudget.freeBytes)
        #expect(shared.bytes == ByteBudget.stepBytes)
        for _ in 0..<8 { #expect(responder.write(chunk)) }
        #expect(!responder.count(in: &budget) && budget.held == 2 * ByteBudget.freeBytes)
        _ = take(10 * ByteBudget.freeBytes, of: responder)
        #expect(responder.count(in: &budget) && budget.held == 0 && shared.bytes == 0)
    }

    @Test("is reset where its connection's streams hold more than their bound")
    func reset() throws {
        var configuration = EdgeConfiguration()
        configuration.answerBytesMax = 200_000
        let server = try RawServer(configuration) { _, responder in
            responder.openStream(status: 200, fields: [])
            for _ in 0..<60 { _ = responder.write(SharedBytes([UInt8](repeating: 0x41, count: 1000))) }
        }
        defer { server.end() }
        let client = try RawClient(port: server.port)
        client.send(Frames.preface + Frames.setting(4, 0))
        for stream in 0..<10 { client.send(Frames.headers(1 + 2 * stream, "GET", "/", isEnd: true)) }
        #expect(client.read { client in Frames.read(client.received).count { $0.kind == 3 } == 7 })
        let resets = Frames.read(client.received).filter { $0.kind == 3 }
        #expect(resets.allSatisfy { Array($0.payload) == [0, 0, 0, 11] })
        #expect(!client.isClosed)
    }
}
