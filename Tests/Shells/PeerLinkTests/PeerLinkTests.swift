import Foundation
import Model
import NIOCore
import Synchronization
import Testing

@testable import PeerLink

@Suite("Greetings between nodes") struct GreetingTests {
    /// Frames over an older connection are late, whatever still comes.
    @Test("count for the newest connection of a loop only")
    func newestCounts() {
        func hello(_ processID: ProcessID, _ loop: UInt16, _ connectionNumber: UInt64) -> PeerIdentity {
            var hello = PeerIdentity(cluster: [], processID: processID, name: "a")
            (hello.loop, hello.connectionNumber) = (loop, connectionNumber)
            return hello
        }
        let newest = NewestConnections()
        let first = hello(1, 0, 3)
        #expect(newest.register(first) && newest.isNewest(first))
        #expect(newest.register(hello(1, 1, 1)) && newest.register(hello(2, 0, 1)) && newest.isNewest(first))
        #expect(newest.register(hello(1, 0, 4)))
        #expect(!newest.isNewest(first) && !newest.register(first))
        for number in UInt32(10)...20_000 { _ = newest.register(hello(ProcessID(number), 0, 1)) }
        #expect(newest.isNewest(hello(20_000, 0, 1)) && !newest.isNewest(hello(20_000, 0, 0)))
    }

    @Test("are refused where they are cut or make no sense")
    func cutGreetings() {
        var own = PeerIdentity(cluster: Array(0..<16), processID: 7, name: "a")
        own.nonce = Array(repeating: 9, count: Greeting.nonceBytes)
        let hello = own.encoded
        let versions = hello.count - 2 - Greeting.nonceBytes - 1 - 8
        for count in 0..<hello.count {
            #expect(PeerIdentity(decoding: Array(hello[..<count])) == nil)
        }
        let whole = PeerIdentity(decoding: hello)
        #expect(whole == own && whole?.processID == 7 && whole?.versions == Dialect.versions)
        #expect(PeerIdentity(decoding: hello + [1, 2, 3]) == whole, "a later version may say more")
        for (lowest, highest) in [(0, 0), (0, 1), (3, 2)] as [(UInt8, UInt8)] {
            var bad = hello
            (bad[versions], bad[versions + 1]) = (lowest, highest)
            #expect(PeerIdentity(decoding: bad) == nil)
        }
        own.nonce = Array(repeating: 9, count: Greeting.nonceBytes - 1)
        #expect(PeerIdentity(decoding: own.encoded) == nil, "a nonce that is too short")
        for text in ["", "host", "host:", ":1", "host:0", "host:70000", "[::1]"] {
            #expect(PeerConnections.Address(text) == nil, "\(text)")
        }
        #expect(PeerConnections.Address("[::1]:80") == .init(host: "::1", port: 80))
    }
}

/// The events of one side.
final class Heard: Sendable {
    private struct State {
        var payloads: [[UInt8]] = []
        var moments: [MonotonicTime] = []
        var resets = 0
        var refusals: [String] = []
    }
    private let heard = Mutex(State())
    /// A clock with a zero of its own, as a clock has that goes on while the machine is suspended.
    static let now: @Sendable () -> MonotonicTime = {
        MonotonicTime(nanoseconds: NIODeadline.now().uptimeNanoseconds).advanced(by: .seconds(1_000_000))
    }
    var events: PeerEvents {
        PeerEvents(
            now: Heard.now,
            received: { _, payload, after in
                self.heard.withLock {
                    $0.payloads.append(payload)
                    $0.moments.append(after)
                }
            },
            reset: { _ in self.heard.withLock { $0.resets += 1 } },
            refused: { reason in self.heard.withLock { $0.refusals.append(reason) } })
    }
    /// For each payload, the moment after which it was handed over.
    var moments: [MonotonicTime] { heard.withLock { $0.moments } }
    var payloads: [[UInt8]] { heard.withLock { $0.payloads } }
    var resets: Int { heard.withLock { $0.resets } }
    var refusals: [String] { heard.withLock { $0.refusals } }

    func wait(_ until: () -> Bool) {
        let end = Date(timeIntervalSinceNow: 20)
        while !until(), Date() < end { Thread.sleep(forTimeInterval: 0.005) }
    }
}

@Suite("Links between nodes") struct PeerLinkTests {
    private let there = Heard()

    @Test("carry messages in order, and the other side hears of their end")
    func inOrder() throws {
        let server = try PeerServer(events: there.events)
        let payloads = (0..<1_000).map { Array("\($0)".utf8) }
        let peers = try Connecting(to: server.port, events: Heard().events, sending: payloads)
        #expect(try !peers.run { $0.send([1], to: 3) }, "nobody knows 3")
        there.wait { there.payloads.count == 1_000 }
        #expect(there.payloads == payloads)
        try peers.run { $0.close() }
        there.wait { there.resets == 1 }
        #expect(there.resets == 1, "the other side hears that the connection is gone")
        server.close()
    }

    /// Nodes with certificates of one authority talk. A node refuses another authority's certificate, or
    /// none.
    @Test("are made only between certificates of one authority")
    func authorities() throws {
        let (ours, theirs) = (try CertificateFolder(), try CertificateFolder())
        defer { for folder in [ours, theirs] { folder.remove() } }
        let server = try PeerServer(tls: try ours.tls(nil), events: there.events)
        for (tls, isOurs) in [(try ours.tls(nil), true), (try theirs.tls(nil), false), (nil, false)] {
            let here = Heard()
            let before = there.payloads.count
            let peers = try Connecting(
                to: server.port, tls: tls, events: here.events, sending: [[1, 2, 3]])
            if isOurs {
                there.wait { there.payloads.count > before }
                #expect(there.payloads.last == [1, 2, 3])
            } else {
                there.wait { !there.refusals.isEmpty || !here.refusals.isEmpty }
                #expect(there.payloads.count == before)
            }
            try peers.run { $0.close() }
        }
        #expect(!there.refusals.isEmpty)
        server.close()
    }

    @Test("are refused to another cluster and to another process")
    func strangers() throws {
        let server = try PeerServer(events: there.events)
        for (stranger, expected) in [(.test(1, cluster: 9), 2), (.test(1), 5)]
            as [(PeerIdentity, ProcessID)]
        {
            let here = Heard()
            let peers = try Connecting(
                stranger, to: server.port, of: expected, events: here.events,
                sending: [[1, 2, 3]])
            here.wait { !here.refusals.isEmpty }
            #expect(!here.refusals.isEmpty)
            try peers.run { $0.close() }
        }
        #expect(there.payloads.isEmpty)
        server.close()
    }
}
