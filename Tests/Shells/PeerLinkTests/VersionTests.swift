import Model
import NIOCore
import Testing

@testable import PeerLink

/// Nodes of neighbouring versions talk. A node refuses all others in a sentence that names the versions.
@Suite("Versions that nodes speak") struct VersionTests {
    private let there = Heard()

    @Test("are the highest common one")
    func highestCommon() {
        func common(_ one: ClosedRange<UInt8>, _ other: ClosedRange<UInt8>) -> UInt8? {
            let found = Dialect.common(.test(1, versions: one), .test(2, versions: other))
            #expect(found == Dialect.common(.test(2, versions: other), .test(1, versions: one)))
            return found?.version
        }
        #expect(common(1...1, 1...2) == 1 && common(1...2, 1...2) == 2 && common(1...4, 2...3) == 3)
        #expect(common(1...1, 2...3) == nil && common(4...9, 1...3) == nil)
    }

    /// Either end may be the newer one. One payload is long enough for compression.
    @Test(
        "may be neighbours: both ends talk, whichever is the newer",
        arguments: [(1, 1), (1, 2), (2, 1), (2, 2)] as [(UInt8, UInt8)])
    func neighbours(_ highest: (UInt8, UInt8)) throws {
        let here = Heard()
        let server = try PeerServer(identity: .test(2, versions: 1...highest.1), events: there.events)
        let long = Array(repeating: Array("the same again, ".utf8), count: 5_000).flatMap { $0 }
        let peers = try Connecting(
            .test(1, versions: 1...highest.0), to: server.port, events: here.events,
            sending: [[1, 2, 3], long, [4]])
        there.wait { there.payloads.count == 3 }
        #expect(there.payloads == [[1, 2, 3], long, [4]])
        #expect(there.refusals.isEmpty && here.refusals.isEmpty)
        try peers.run { $0.close() }
        server.close()
    }

    @Test("are both told to both ends where none is common")
    func noCommon() throws {
        let here = Heard()
        let server = try PeerServer(identity: .test(2, versions: 2...3), events: there.events)
        let peers = try Connecting(
            .test(1, versions: 1...1), to: server.port, events: here.events, sending: [[1]])
        here.wait { !here.refusals.isEmpty && !there.refusals.isEmpty }
        for refusal in [here.refusals.first, there.refusals.first] {
            let sentence = refusal ?? ""
            #expect(sentence.contains("node-1 speaks version 1") && sentence.contains("versions 2 to 3"))
        }
        #expect(there.payloads.isEmpty)
        try peers.run { $0.close() }
        server.close()
    }

    /// A peer greets well, and then sends a frame of a kind that this version does not know.
    @Test("know their kinds of frame: an unknown kind is refused by name")
    func unknownKind() throws {
        let server = try PeerServer(identity: .test(2, versions: 1...1), events: there.events)
        let client = try RawPeer(PeerIdentity.test(1, versions: 1...1).encoded, to: server.port).channel
        var bytes = RawPeer.frame(.data, [1])
        bytes.setInteger(UInt8(200), at: 5)
        try client.writeAndFlush(bytes).wait()
        there.wait { !there.refusals.isEmpty }
        #expect(
            there.refusals == ["node-1 sent a frame that is not understood: a frame of an unknown kind 200"])
        #expect(there.payloads.isEmpty)
        try? client.close().wait()
        server.close()
    }
}
