import Model
import NIOCore
import Testing

@testable import PeerLink

/// The moment after which a message was handed over: never later than the handover, however long the message
/// lay.
@Suite("The moment after which a message was handed over") struct MomentTests {
    private func now() -> MonotonicTime { Heard.now() }

    @Test("is when the last ping was sent that was answered before the message came")
    func lastPing() throws {
        let there = Heard()
        let server = try PeerServer(events: there.events)
        let before = now()
        let client = try RawPeer(PeerIdentity.test(1).encoded, to: server.port)
        try client.say(.data, [1])
        there.wait { client.frames.contains(.ping) && there.payloads.count == 1 }
        let first = there.moments.first ?? now()
        #expect(first.advanced(by: PeerTiming.waitMax) >= before)
        #expect(first < before, "what comes first may have waited for the connection")
        // For all that the server knows, this frame left before the ping came. The second pong answers no
        // ping, so it says nothing.
        try client.say(.data, [2])
        let answered = now()
        try client.say(.pong, [])
        try client.say(.pong, [])
        try client.say(.data, [3])
        there.wait { there.payloads.count == 3 }
        #expect(there.payloads == [[1], [2], [3]])
        let moments = there.moments
        #expect(moments.count == 3 && moments[1] == first)
        #expect(moments[2] >= before && moments[2] <= answered)
        try client.channel.close().wait()
        server.close()
    }

    @Test("is never later than the handover")
    func neverLater() throws {
        let there = Heard()
        let here = Heard()
        let server = try PeerServer(events: there.events)
        let peers = try Connecting(to: server.port, events: here.events)
        var handedOver: [MonotonicTime] = []
        for number in 0..<200 {
            handedOver.append(
                try peers.run {
                    let now = Heard.now()
                    #expect($0.send([UInt8(number)], to: 2))
                    return now
                })
        }
        there.wait { there.payloads.last == [199] }
        #expect(there.payloads.last == [199])
        for (payload, moment) in zip(there.payloads, there.moments) {
            #expect(moment <= handedOver[Int(payload[0])])
        }
        try peers.run { $0.close() }
        server.close()
    }
}
