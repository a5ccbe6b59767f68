import Foundation
import Model
import NIOCore
import NIOPosix
import TLS
import Testing

@testable import PeerLink

@Suite("A node's certificate that an operator refuses") struct RefusedCertificateTests {
    private let group = MultiThreadedEventLoopGroup.singleton
    private let folder: String
    private let authority: CertificateAuthority

    init() throws {
        folder = FileManager.default.temporaryDirectory.path + "/tidecast-refused-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        authority = try CertificateAuthority(days: 2)
        try write(try authority.certificatePEM(), "ca.pem")
    }

    private func write(_ text: String, _ file: String) throws {
        try text.write(toFile: "\(folder)/\(file)", atomically: false, encoding: .utf8)
    }

    private func tls(_ node: String) throws -> PeerTLS {
        let made = try authority.sign(.peer(node: node, hosts: []), days: 2)
        try write(made.certificatePEM, "\(node).pem")
        try write(made.keyPEM, "\(node).key")
        return try PeerTLS(
            PeerFiles(
                certificateFile: "\(folder)/\(node).pem", keyFile: "\(folder)/\(node).key",
                authorityFile: "\(folder)/ca.pem"), node: node)
    }

    /// Two nodes; node 1 connects to node 2. Each has a list of its own of what it refuses.
    private final class Two {
        let (there, here) = (Heard(), Heard())
        let (thereRefuses, hereRefuses) = (RefusedCertificates([]), RefusedCertificates([]))
        let (thereShows, hereShows): (CertificateFingerprint, CertificateFingerprint)
        private let server: PeerServer
        private let loop: any EventLoop
        private let peers: NIOLoopBound<PeerConnections>

        init(_ group: MultiThreadedEventLoopGroup, there theirs: PeerTLS, here ours: PeerTLS) throws {
            thereShows = try #require(CertificateFingerprint(theirs.fingerprints[0]))
            hereShows = try #require(CertificateFingerprint(ours.fingerprints[0]))
            server = try PeerServer(
                group: group, host: "127.0.0.1", port: 0, identity: Two.identity(2),
                trust: .test(mayOmitProof: false, refused: thereRefuses), tls: theirs, events: there.events)
            let loop = group.next()
            self.loop = loop
            let (port, events, trust) = (
                server.port, here.events, PeerTrust.test(mayOmitProof: false, refused: hereRefuses)
            )
            peers = try loop.submit {
                let peers = PeerConnections(
                    eventLoop: loop, identity: Two.identity(1), trust: trust, tls: ours, isEager: true,
                    events: events)
                peers.setAddresses([2: .init(host: "127.0.0.1", port: port)])
                return NIOLoopBound(peers, eventLoop: loop)
            }.wait()
        }

        private static func identity(_ processID: ProcessID) -> PeerIdentity {
            PeerIdentity(
                cluster: Array(repeating: 1, count: 16), processID: processID, name: "node-\(processID)")
        }

        /// Sends until a payload comes through.
        func reach() throws -> Bool {
            let before = there.payloads.count
            there.wait {
                _ = try? loop.submit { [peers] in peers.value.send([1], to: 2) }.wait()
                return there.payloads.count > before
            }
            return there.payloads.count > before
        }

        func end() throws {
            try loop.submit { [peers] in peers.value.close() }.wait()
            server.close()
        }
    }

    @Test("is refused by the side that accepts and by the side that connects", arguments: [true, false])
    func bothSides(isListening: Bool) throws {
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let two = try Two(group, there: try tls("node-2"), here: try tls("node-1"))
        #expect(try two.reach())
        let (list, heard, refused, name) =
            isListening
            ? (two.thereRefuses, two.there, two.hereShows, "node-1")
            : (two.hereRefuses, two.here, two.thereShows, "node-2")
        let resets = two.there.resets
        list.update([refused])
        // The connection that stands is cut, and each next one is refused in its greeting.
        heard.wait { heard.refusals.count >= 3 }
        let words = "node \(name) shows a certificate that the cluster refuses (\(refused.text))"
        #expect(heard.refusals.allSatisfy { $0.hasPrefix(words) } && heard.refusals.count >= 3)
        #expect(list.refusedCount >= 3 && two.there.resets > resets)
        list.update([])
        #expect(try two.reach())
        try two.end()
    }

    @Test("is no other certificate, of another node or of the same")
    func others() throws {
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let former = try #require(CertificateFingerprint(try tls("node-1").fingerprints[0]))
        let third = try #require(CertificateFingerprint(try tls("node-3").fingerprints[0]))
        let two = try Two(group, there: try tls("node-2"), here: try tls("node-1"))
        #expect(try two.reach())
        let resets = two.there.resets
        for list in [two.thereRefuses, two.hereRefuses] { list.update([former, third]) }
        #expect(try two.reach())
        #expect(two.there.resets == resets && two.thereRefuses.refusedCount == 0)
        try two.end()
    }
}

@Suite("A greeting") struct RefusedGreetingTests {
    /// The other form of a certificate's signature makes another fingerprint.
    @Test("is refused in each form of a refused certificate, and before the proof", arguments: [0, 1])
    func forms(shown: Int) throws {
        let forms = (0..<2).compactMap { CertificateFingerprint([UInt8](repeating: $0, count: 32)) }
        let list = RefusedCertificates([forms[shown]])
        func identity(_ processID: ProcessID) -> PeerIdentity {
            PeerIdentity(
                cluster: Array(repeating: 1, count: 16), processID: processID, name: "n\(processID)"
            ).withNonce([UInt8](repeating: 1, count: Greeting.nonceBytes))
        }
        var greeting = Greeting(
            identity(1), .listening, expected: nil, trust: .test(mayOmitProof: false, refused: list))
        let channel = Greeting.Channel(nodes: ["n2"], certificates: forms)
        do throws(Greeting.Refusal) {
            _ = try greeting.hear(.hello, identity(2).encoded, channel: channel)
            Issue.record("the greeting was taken")
        } catch {
            #expect(error.isOfCertificate && error.reason.contains(forms[shown].text))
        }
        list.update([])
        _ = try greeting.hear(.hello, identity(2).encoded, channel: channel)
    }
}
