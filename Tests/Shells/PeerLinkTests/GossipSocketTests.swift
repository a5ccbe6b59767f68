import Listener
import NIOCore
import NIOPosix
import Synchronization
import TLS
import Testing

@testable import PeerLink

@Suite("The gossip port") struct GossipSocketTests {
    private static let cluster = [UInt8](repeating: 7, count: 16)
    private static let envelope = GossipEnvelope(cluster: cluster, key: [1, 2, 3])

    @Test("opens what it has sealed")
    func whatIsSealedIsOpened() throws {
        let datagram = GossipSocketTests.envelope.wrap([9, 8, 7])
        #expect(try GossipSocketTests.envelope.unwrap(datagram) == [9, 8, 7])
    }

    @Test("refuses a datagram with a flipped bit or a cut")
    func everyFlippedBitIsSeen() {
        let whole = GossipSocketTests.envelope.wrap([9, 8, 7])
        for index in whole.indices {
            for bit in 0..<8 {
                var bytes = whole
                bytes[index] ^= 1 << UInt8(bit)
                #expect(throws: GossipEnvelope.Refusal.self) {
                    try GossipSocketTests.envelope.unwrap(bytes)
                }
            }
        }
        for count in 0..<whole.count {
            #expect(throws: GossipEnvelope.Refusal.self) {
                try GossipSocketTests.envelope.unwrap(Array(whole[..<count]))
            }
        }
    }

    @Test("names the reason of each refusal")
    func eachRefusalHasItsName() {
        let envelope = GossipSocketTests.envelope
        let others = GossipEnvelope(cluster: [UInt8](repeating: 8, count: 16), key: [1, 2, 3])
        let keyless = GossipEnvelope(cluster: GossipSocketTests.cluster, key: [4])
        #expect(throws: GossipEnvelope.Refusal.otherCluster) { try envelope.unwrap(others.wrap([1])) }
        #expect(throws: GossipEnvelope.Refusal.tag) { try envelope.unwrap(keyless.wrap([1])) }
        var later = envelope.wrap([1])
        later[8] = 2
        #expect(throws: GossipEnvelope.Refusal.version(2)) { try envelope.unwrap(later) }
        let long = envelope.wrap([UInt8](repeating: 1, count: 1400))
        #expect(throws: GossipEnvelope.Refusal.length(1425)) { try envelope.unwrap(long) }
    }

    /// RFC 4231, test case 2, cut to 16 bytes.
    @Test("makes its tags by HMAC with SHA-256, as in RFC 4231")
    func theTagIsHMACOfSHA256() {
        let tag = MessageSeal(key: Array("Jefe".utf8)).tag(Array("what do ya want for nothing?".utf8))
        let text = tag.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
        #expect(text == "5bdcc146bf60754e6a042426089575c7")
    }

    /// The socket refuses each bad datagram, and hears the good one behind them.
    @Test("hears a good datagram behind garbage")
    func afterGarbage() async throws {
        let (heard, told) = AsyncStream<[UInt8]>.makeStream()
        let refused = Mutex(0)
        let events = GossipSocket.Events(
            received: { packet, _ in told.yield(packet) }, refused: { _, _ in refused.withLock { $0 += 1 } })
        let group = MultiThreadedEventLoopGroup.singleton
        let socket = try GossipSocket(
            eventLoop: group.next(), host: "127.0.0.1", port: 0, cluster: GossipSocketTests.cluster,
            key: [1, 2, 3], events: events)
        let garbage = try await DatagramBootstrap(group: group).bind(host: "127.0.0.1", port: 0).get()
        let address = try SocketAddress(ipAddress: "127.0.0.1", port: socket.port)
        let good = GossipSocketTests.envelope.wrap([42])
        for bytes in [
            [], [1], [UInt8](repeating: 0, count: 1400), [UInt8](repeating: 5, count: 30_000), good,
        ] {
            let buffer = garbage.allocator.buffer(bytes: bytes)
            try await garbage.writeAndFlush(AddressedEnvelope(remoteAddress: address, data: buffer)).get()
        }
        for await packet in heard {
            #expect(packet == [42])
            break
        }
        #expect(refused.withLock { $0 } >= 3)
        try await garbage.close()
        socket.close()
    }
    @Test("a host that no name server knows is refused by its name")
    func unknownHost() {
        let events = GossipSocket.Events(received: { _, _ in }, refused: { _, _ in })
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let error = #expect(throws: ListenError.self) {
            try GossipSocket(
                eventLoop: loop, host: "nobody.invalid", port: 0, cluster: GossipSocketTests.cluster,
                key: [1],
                events: events)
        }
        let expected = "cannot listen on nobody.invalid:0: nobody.invalid is no name that this machine knows"
        #expect(error?.description == expected)
    }
}
