import Model
import NIOCore
import NIOPosix
import Testing

@testable import PeerLink

/// Nodes of neighbouring versions talk. A node refuses all others in a sentence that names the versions.
@Suite("Versions that nodes speak") struct VersionTests {
    private let group = MultiThreadedEventLoopGroup.singleton

    private func identity(_ processID: ProcessID, _ versions: ClosedRange<UInt8>) -> PeerIdentity {
        var identity = PeerIdentity(
            cluster: Array(repeating: 1, count: 16), processID: processID, name: "node-\(processID)")
        identity.versions = versions
        return identity
    }

    @Test("are the highest common one, with the common features")
    func highestCommon() {
        func common(_ one: ClosedRange<UInt8>, _ other: ClosedRange<UInt8>) -> UInt8? {
            let found = Dialect.common(identity(1, one), identity(2, other))
            #expect(found == Dialect.common(identity(2, other), identity(1, one)))
            return found?.version
        }
        #expect(common(1...1, 1...2) == 1 && common(1...2, 1...2) == 2 && common(1...4, 2...3) == 3)
        #expect(common(1...1, 2...3) == nil && common(4...9, 1...3) == nil)
        var other = identity(2, 1...2)
        other.features = Dialect.Features(rawValue: 6)
        #expect(Dialect.common(identity(1, 1...2), other) == Dialect(version: 2, features: []))
        #expect(Dialect.common(identity(1, 1...2), identity(2, 1...3))?.features == [.lz4])
        #expect(Dialect.common(identity(1, 1...1), identity(2, 1...3))?.features == [])
    }

    /// Either end may be the newer one. One payload is long enough for compression, where both ends can
    /// compress.
    @Test(
        "may be neighbours: both ends talk, whichever is the newer",
        arguments: [(1, 1), (1, 2), (2, 1), (2, 2)] as [(UInt8, UInt8)])
    func neighbours(_ highest: (UInt8, UInt8)) throws {
        let there = Heard()
        let here = Heard()
        let server = try PeerServer(
            group: group, host: "127.0.0.1", port: 0, identity: identity(2, 1...highest.1),
            events: there.events)
        let (loop, port) = (group.next(), server.port)
        let long = Array(repeating: Array("the same again, ".utf8), count: 5_000).flatMap { $0 }
        let peers = try loop.submit {
            let peers = PeerConnections(
                eventLoop: loop, identity: self.identity(1, 1...highest.0), events: here.events)
            peers.setAddresses([2: .init(host: "127.0.0.1", port: port)])
            for payload in [[1, 2, 3], long, [4]] { #expect(peers.send(payload, to: 2)) }
            return NIOLoopBound(peers, eventLoop: loop)
        }.wait()
        there.wait { there.payloads.count == 3 }
        #expect(there.payloads == [[1, 2, 3], long, [4]])
        #expect(there.refusals.isEmpty && here.refusals.isEmpty)
        try loop.submit { peers.value.close() }.wait()
        server.close()
    }

    @Test("are both told to both ends where none is common")
    func noCommon() throws {
        let there = Heard()
        let here = Heard()
        let server = try PeerServer(
            group: group, host: "127.0.0.1", port: 0, identity: identity(2, 2...3), events: there.events)
        let (loop, port) = (group.next(), server.port)
        let peers = try loop.submit {
            let peers = PeerConnections(
                eventLoop: loop, identity: self.identity(1, 1...1), events: here.events)
            peers.setAddresses([2: .init(host: "127.0.0.1", port: port)])
            _ = peers.send([1], to: 2)
            return NIOLoopBound(peers, eventLoop: loop)
        }.wait()
        here.wait { !here.refusals.isEmpty && !there.refusals.isEmpty }
        for refusal in [here.refusals.first, there.refusals.first] {
            let sentence = refusal ?? ""
            #expect(sentence.contains("node-1 speaks version 1") && sentence.contains("versions 2 to 3"))
        }
        #expect(there.payloads.isEmpty)
        try loop.submit { peers.value.close() }.wait()
        server.close()
    }

    /// A peer greets well, and then sends a frame of a kind that this version does not know.
    @Test("know their kinds of frame: an unknown kind is refused by name")
    func unknownKind() throws {
        let there = Heard()
        let server = try PeerServer(
            group: group, host: "127.0.0.1", port: 0, identity: identity(2, 1...2), events: there.events)
        let client = try ClientBootstrap(group: group).connect(host: "127.0.0.1", port: server.port).wait()
        var bytes = ByteBuffer()
        Frame.write(.hello, identity(1, 1...2).encoded, in: .greeting, to: &bytes)
        let start = bytes.writerIndex
        Frame.write(.data, [1], in: Dialect(version: 2, features: [.lz4]), to: &bytes)
        bytes.setInteger(UInt8(200), at: start + 5)
        try client.writeAndFlush(bytes).wait()
        there.wait { !there.refusals.isEmpty }
        #expect(
            there.refusals == ["node-1 sent a frame that is not understood: a frame of an unknown kind 200"])
        #expect(there.payloads.isEmpty)
        try? client.close().wait()
        server.close()
    }
}
