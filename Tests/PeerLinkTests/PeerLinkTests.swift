import COpenSSL
import Foundation
import Model
import NIOCore
import NIOPosix
import Synchronization
import TLS
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
        let before = hello.count - 6 - Greeting.nonceBytes - 1
        for count in 0..<hello.count where count != before {
            #expect(PeerIdentity(decoding: Array(hello[..<count])) == nil)
        }
        let whole = PeerIdentity(decoding: hello)
        #expect(
            whole == own && whole?.processID == 7 && whole?.versions == Dialect.versions
                && whole?.features == [.lz4])
        #expect(PeerIdentity(decoding: hello + [1, 2, 3]) == whole, "a later version may say more")
        let first = PeerIdentity(decoding: Array(hello[..<before]))
        #expect(first?.versions == 1...1 && first?.features == [], "as the first version greeted")
        for (lowest, highest) in [(0, 0), (0, 1), (3, 2)] as [(UInt8, UInt8)] {
            var bad = hello
            (bad[before], bad[before + 1]) = (lowest, highest)
            #expect(PeerIdentity(decoding: bad) == nil)
        }
        own.nonce = Array(repeating: 9, count: Greeting.nonceBytes - 1)
        #expect(PeerIdentity(decoding: own.encoded) == nil, "a nonce that is too short")
        own.versions = 1...2
        #expect(PeerIdentity(decoding: own.encoded)?.nonce == [], "before version 3 there is none")
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
    private let group = MultiThreadedEventLoopGroup.singleton
    private func identity(_ processID: ProcessID, cluster: UInt8 = 1) -> PeerIdentity {
        PeerIdentity(
            cluster: Array(repeating: cluster, count: 16), processID: processID, name: "node-\(processID)")
    }

    @Test("carry messages in order, and the other side hears of their end")
    func inOrder() throws {
        let there = Heard()
        let here = Heard()
        let server = try PeerServer(
            group: group, host: "127.0.0.1", port: 0, identity: identity(2), events: there.events)
        let loop = group.next()
        let port = server.port
        let peers = try loop.submit {
            let peers = PeerConnections(eventLoop: loop, identity: self.identity(1), events: here.events)
            peers.setAddresses([2: .init(host: "127.0.0.1", port: port)])
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

    /// Nodes with certificates of one authority talk. A node refuses another authority's certificate, or
    /// none.
    @Test("are made only between certificates of one authority")
    func authorities() throws {
        let folder = FileManager.default.temporaryDirectory.path + "/tidecast-peer-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        for authority in ["ours", "theirs"] {
            let key = try #require(CertificateMaker.key())
            defer { EVP_PKEY_free(key) }
            let certificate = try CertificateMaker.make(
                subject: authority, key: key, issuer: nil, signer: key, days: 2,
                extensions: [(NID_basic_constraints, "critical,CA:TRUE")])
            defer { X509_free(certificate) }
            let texts = [
                "pem": try CertificateMaker.pem { PEM_write_bio_X509($0, certificate) },
                "key": try CertificateMaker.pem {
                    PEM_write_bio_PKCS8PrivateKey($0, key, nil, nil, 0, nil, nil)
                },
            ]
            for (kind, text) in texts {
                try text.write(toFile: "\(folder)/\(authority).\(kind)", atomically: false, encoding: .utf8)
            }
        }
        func context(_ name: String) throws -> PeerTLS {
            try PeerTLS(
                PeerFiles(
                    certificateFile: "\(folder)/\(name).pem", keyFile: "\(folder)/\(name).key",
                    authorityFile: "\(folder)/\(name).pem"), node: "any")
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
                peers.setAddresses([2: .init(host: "127.0.0.1", port: port)])
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

    @Test("are refused to another cluster and to another process")
    func strangers() throws {
        let there = Heard()
        let server = try PeerServer(
            group: group, host: "127.0.0.1", port: 0, identity: identity(2), events: there.events)
        let loop = group.next()
        let port = server.port
        for stranger in [identity(1, cluster: 9), identity(1)] {
            let here = Heard()
            let peers = try loop.submit {
                let peers = PeerConnections(eventLoop: loop, identity: stranger, events: here.events)
                peers.setAddresses([stranger.cluster[0] == 9 ? 2 : 5: .init(host: "127.0.0.1", port: port)])
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
