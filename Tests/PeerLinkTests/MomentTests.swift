import Model
import NIOCore
import NIOPosix
import Synchronization
import Testing

@testable import PeerLink

/// The moment after which a message was handed over: never later than the handover, however long the message
/// lay.
@Suite("The moment after which a message was handed over") struct MomentTests {
    private let group = MultiThreadedEventLoopGroup.singleton

    private func identity(_ processID: ProcessID) -> PeerIdentity {
        PeerIdentity(cluster: Array(repeating: 1, count: 16), processID: processID, name: "node-\(processID)")
    }

    private func now() -> MonotonicTime { Heard.now() }

    /// Reads the server's frames. The test itself decides when this peer sends a frame.
    private final class Reader: ChannelInboundHandler, Sendable {
        typealias InboundIn = ByteBuffer
        let pings = Mutex(0)
        private let bytes = Mutex(ByteBuffer())

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            var arrived = unwrapInboundIn(data)
            bytes.withLock { bytes in
                bytes.writeBuffer(&arrived)
                for dialect in [Dialect.greeting, Dialect(version: 2, features: [.lz4])] {
                    while let frame = try? Frame.read(from: &bytes, in: dialect) {
                        if frame.kind == .ping { pings.withLock { $0 += 1 } }
                    }
                }
            }
        }
    }

    @Test("is when the last ping was sent that was answered before the message came")
    func lastPing() throws {
        let there = Heard()
        let server = try PeerServer(
            group: group, host: "127.0.0.1", port: 0, identity: identity(2), events: there.events)
        let reader = Reader()
        let before = now()
        let client = try ClientBootstrap(group: group)
            .channelInitializer { $0.pipeline.addHandler(reader) }
            .connect(host: "127.0.0.1", port: server.port).wait()
        func say(_ kind: Frame.Kind, _ payload: [UInt8], in dialect: Dialect) throws {
            var bytes = ByteBuffer()
            Frame.write(kind, payload, in: dialect, to: &bytes)
            try client.writeAndFlush(bytes).wait()
        }
        let dialect = Dialect(version: 2, features: [.lz4])
        // A former build sends no proof, so this peer can send data at once.
        var former = identity(1)
        former.versions = 1...2
        try say(.hello, former.encoded, in: .greeting)
        try say(.data, [1], in: dialect)
        there.wait { reader.pings.withLock { $0 } >= 1 && there.payloads.count == 1 }
        let first = there.moments.first ?? now()
        #expect(first.advanced(by: PeerTiming.waitMax) >= before)
        #expect(first < before, "what comes first may have waited for the connection")
        // For all that the server knows, this frame left before the ping came. The second pong answers no
        // ping, so it says nothing.
        try say(.data, [2], in: dialect)
        let answered = now()
        try say(.pong, [], in: dialect)
        try say(.pong, [], in: dialect)
        try say(.data, [3], in: dialect)
        there.wait { there.payloads.count == 3 }
        #expect(there.payloads == [[1], [2], [3]])
        let moments = there.moments
        #expect(moments.count == 3 && moments[1] == first)
        #expect(moments[2] >= before && moments[2] <= answered)
        try client.close().wait()
        server.close()
    }

    @Test("is never later than the handover")
    func neverLater() throws {
        let there = Heard()
        let here = Heard()
        let server = try PeerServer(
            group: group, host: "127.0.0.1", port: 0, identity: identity(2), events: there.events)
        let (loop, port) = (group.next(), server.port)
        let peers = try loop.submit {
            let peers = PeerConnections(eventLoop: loop, identity: self.identity(1), events: here.events)
            peers.setAddresses([2: .init(host: "127.0.0.1", port: port)])
            return NIOLoopBound(peers, eventLoop: loop)
        }.wait()
        var handedOver: [MonotonicTime] = []
        for number in 0..<200 {
            handedOver.append(
                try loop.submit {
                    let now = self.now()
                    #expect(peers.value.send([UInt8(number)], to: 2))
                    return now
                }.wait())
        }
        there.wait { there.payloads.last == [199] }
        #expect(there.payloads.last == [199])
        for (payload, moment) in zip(there.payloads, there.moments) {
            #expect(moment <= handedOver[Int(payload[0])])
        }
        try loop.submit { peers.value.close() }.wait()
        server.close()
    }
}
