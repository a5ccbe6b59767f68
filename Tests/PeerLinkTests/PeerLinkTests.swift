import Foundation
import Model
import NIOCore
import NIOPosix
import Synchronization
import TLS
import Testing

@testable import PeerLink

@Suite struct FrameTests {
    private func whole(_ kind: Frame.Kind, _ payload: [UInt8]) -> ByteBuffer {
        var buffer = ByteBuffer()
        Frame.write(kind, payload, to: &buffer)
        return buffer
    }

    @Test func whatWasWrittenIsReadAlsoByteByByte() throws {
        var random = SeededGenerator(seed: 1)
        var stream = ByteBuffer()
        var sent: [[UInt8]] = []
        for size in [0, 1, 100, 70_000] {
            sent.append((0..<size).map { _ in UInt8(truncatingIfNeeded: random.next()) })
            Frame.write(.data, sent[sent.count - 1], to: &stream)
        }
        var arrived = ByteBuffer()
        var found: [[UInt8]] = []
        while let byte: UInt8 = stream.readInteger() {
            arrived.writeInteger(byte)
            while let frame = try Frame.read(from: &arrived) { found.append(frame.payload) }
        }
        #expect(found == sent && arrived.readableBytes == 0)
    }

    @Test func everyFlippedByteIsAnErrorOrWaits() {
        let good = whole(.data, Array("what was said".utf8))
        for place in 0..<good.readableBytes {
            for bit in 0..<8 {
                var bad = good
                let byte: UInt8 = bad.getInteger(at: place) ?? 0
                bad.setInteger(byte ^ 1 << UInt8(bit), at: place)
                let frame = try? Frame.read(from: &bad)
                if let read = frame ?? nil { #expect(place == 5 && read.kind != .data, "byte \(place)") }
            }
        }
    }

    /// Who has not said who it is makes nobody keep megabytes for it.
    @Test func beforeTheGreetingFramesAreSmall() throws {
        var large = whole(.data, Array(repeating: 1, count: Frame.greetingBytesMax + 1))
        #expect(throws: Frame.Fault.self) {
            try Frame.read(from: &large, payloadMax: Frame.greetingBytesMax)
        }
        #expect(try Frame.read(from: &large)?.payload.count == Frame.greetingBytesMax + 1)
    }

    /// What was said over an older connection is late, whatever still comes.
    @Test func theNewestConnectionOfALoopCounts() {
        func hello(_ life: UInt32, _ loop: UInt16, _ turn: UInt64) -> PeerIdentity {
            var hello = PeerIdentity(cluster: [], life: life, name: "a")
            (hello.loop, hello.turn) = (loop, turn)
            return hello
        }
        let newest = NewestConnections()
        let first = hello(1, 0, 3)
        #expect(newest.adopt(first) && newest.isNewest(first))
        #expect(newest.adopt(hello(1, 1, 1)) && newest.adopt(hello(2, 0, 1)) && newest.isNewest(first))
        #expect(newest.adopt(hello(1, 0, 4)))
        #expect(!newest.isNewest(first) && !newest.adopt(first))
        for life in UInt32(10)...20_000 { _ = newest.adopt(hello(life, 0, 1)) }
        #expect(newest.isNewest(hello(20_000, 0, 1)) && !newest.isNewest(hello(20_000, 0, 0)))
    }

    @Test func greetingsThatAreCutAreRefused() {
        let hello = PeerIdentity(cluster: Array(0..<16), life: 7, name: "a").encoded
        for count in 0..<hello.count { #expect(PeerIdentity(decoding: Array(hello[..<count])) == nil) }
        #expect(PeerIdentity(decoding: hello)?.life == 7)
        for text in ["", "host", "host:", ":1", "host:0", "host:70000", "[::1]"] {
            #expect(PeerConnections.Address(text) == nil, "\(text)")
        }
        #expect(PeerConnections.Address("[::1]:80") == .init(host: "::1", port: 80))
    }
}

/// What one side heard.
private final class Heard: Sendable {
    private let heard = Mutex<(payloads: [[UInt8]], resets: Int, refusals: [String])>(([], 0, []))
    var events: PeerEvents {
        PeerEvents(
            received: { _, payload in self.heard.withLock { $0.payloads.append(payload) } },
            reset: { _ in self.heard.withLock { $0.resets += 1 } },
            refused: { reason in self.heard.withLock { $0.refusals.append(reason) } })
    }
    var payloads: [[UInt8]] { heard.withLock { $0.payloads } }
    var resets: Int { heard.withLock { $0.resets } }
    var refusals: [String] { heard.withLock { $0.refusals } }

    func wait(_ until: () -> Bool) {
        let end = Date(timeIntervalSinceNow: 20)
        while !until(), Date() < end { Thread.sleep(forTimeInterval: 0.005) }
    }
}

@Suite struct PeerLinkTests {
    private let group = MultiThreadedEventLoopGroup.singleton
    private func identity(_ life: UInt32, cluster: UInt8 = 1) -> PeerIdentity {
        PeerIdentity(cluster: Array(repeating: cluster, count: 16), life: life, name: "node-\(life)")
    }

    @Test func messagesArriveInOrderAndAgainAfterTheOtherSideWasAway() throws {
        let there = Heard()
        let here = Heard()
        let server = try PeerServer(
            group: group, host: "127.0.0.1", port: 0, identity: identity(2), events: there.events)
        let loop = group.next()
        let port = server.port
        let peers = try loop.submit {
            let peers = PeerConnections(eventLoop: loop, identity: self.identity(1), events: here.events)
            peers.adopt([2: .init(host: "127.0.0.1", port: port)])
            return NIOLoopBound(peers, eventLoop: loop)
        }.wait()
        try loop.submit {
            for number in 0..<1_000 {
                #expect(peers.value.send(Array("\(number)".utf8), to: 2))
            }
            #expect(!peers.value.send([1], to: 3), "nobody knows 3")
        }.wait()
        there.wait { there.payloads.count == 1_000 }
        #expect(there.payloads == (0..<1_000).map { Array("\($0)".utf8) })
        try loop.submit { peers.value.close() }.wait()
        there.wait { there.resets == 1 }
        #expect(there.resets == 1, "the other side hears that the connection is gone")
        server.close()
    }

    /// With certificates of one authority they understand each other; who has another's, or none, is refused.
    @Test func nodesBelieveOnlyTheirOwnAuthority() throws {
        let folder = FileManager.default.temporaryDirectory.path + "/tidecast-peer-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        for authority in ["ours", "theirs"] {
            let command =
                "cd \(folder) && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"
                + " -subj /CN=\(authority) -keyout \(authority).key -out \(authority).pem >/dev/null 2>&1"
            #expect(system(command) == 0)
        }
        func context(_ name: String) throws -> TLSContext {
            try TLSContext(
                peerCertificateFile: "\(folder)/\(name).pem", keyFile: "\(folder)/\(name).key",
                authorityFile: "\(folder)/\(name).pem")
        }
        let there = Heard()
        let server = try PeerServer(
            group: group, host: "127.0.0.1", port: 0, identity: identity(2), tls: try context("ours"),
            events: there.events)
        let loop = group.next()
        let port = server.port
        for (tls, isOurs) in [(try context("ours"), true), (try context("theirs"), false), (nil, false)] {
            let here = Heard()
            let before = there.payloads.count
            let peers = try loop.submit {
                let peers = PeerConnections(
                    eventLoop: loop, identity: self.identity(1), tls: tls, events: here.events)
                peers.adopt([2: .init(host: "127.0.0.1", port: port)])
                _ = peers.send([1, 2, 3], to: 2)
                return NIOLoopBound(peers, eventLoop: loop)
            }.wait()
            if isOurs {
                there.wait { there.payloads.count > before }
                #expect(there.payloads.last == [1, 2, 3])
            } else {
                there.wait { !there.refusals.isEmpty || !here.refusals.isEmpty }
                #expect(there.payloads.count == before)
            }
            try loop.submit { peers.value.close() }.wait()
        }
        #expect(!there.refusals.isEmpty)
        server.close()
    }

    @Test func anotherClusterAndAnotherProcessAreRefused() throws {
        let there = Heard()
        let server = try PeerServer(
            group: group, host: "127.0.0.1", port: 0, identity: identity(2), events: there.events)
        let loop = group.next()
        let port = server.port
        for stranger in [identity(1, cluster: 9), identity(1)] {
            let here = Heard()
            let peers = try loop.submit {
                let peers = PeerConnections(eventLoop: loop, identity: stranger, events: here.events)
                peers.adopt([stranger.cluster[0] == 9 ? 2 : 5: .init(host: "127.0.0.1", port: port)])
                _ = peers.send([1, 2, 3], to: stranger.cluster[0] == 9 ? 2 : 5)
                return NIOLoopBound(peers, eventLoop: loop)
            }.wait()
            here.wait { !here.refusals.isEmpty }
            #expect(!here.refusals.isEmpty)
            try loop.submit { peers.value.close() }.wait()
        }
        #expect(there.payloads.isEmpty)
        server.close()
    }
}
