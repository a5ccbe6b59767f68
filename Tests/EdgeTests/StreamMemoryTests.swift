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
        }
        #expect(third == nil)
    }
}
