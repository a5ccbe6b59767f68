import Model
import TLS
import Testing

@testable import PeerLink

@Suite("A node's certificate that an operator refuses") struct RefusedCertificateTests {
    private let folder: CertificateFolder

    init() throws { folder = try CertificateFolder() }

    /// Two nodes; node 1 connects to node 2. Each has a list of its own of what it refuses.
    private final class Two {
        let (there, here) = (Heard(), Heard())
        let (thereRefuses, hereRefuses) = (RefusedCertificates([]), RefusedCertificates([]))
        let (thereShows, hereShows): (CertificateFingerprint, CertificateFingerprint)
        private let server: PeerServer
        private let peers: Connecting

        init(there theirs: PeerTLS, here ours: PeerTLS) throws {
            thereShows = try #require(CertificateFingerprint(theirs.fingerprints[0]))
            hereShows = try #require(CertificateFingerprint(ours.fingerprints[0]))
            server = try PeerServer(
                trust: .test(refused: thereRefuses), tls: theirs, events: there.events)
            peers = try Connecting(
                to: server.port, trust: .test(refused: hereRefuses), tls: ours, isEager: true,
                events: here.events)
        }

        /// Sends until a payload comes through.
        func reach() throws -> Bool {
            let before = there.payloads.count
            there.wait {
                _ = try? peers.send([1])
                return there.payloads.count > before
            }
            return there.payloads.count > before
        }

        func end() throws {
            try peers.run { $0.close() }
            server.close()
        }
    }

    @Test("is refused by the side that accepts and by the side that connects", arguments: [true, false])
    func bothSides(isListening: Bool) throws {
        defer { folder.remove() }
        let two = try Two(there: try folder.tls("node-2"), here: try folder.tls("node-1"))
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
        defer { folder.remove() }
        let former = try #require(CertificateFingerprint(try folder.tls("node-1").fingerprints[0]))
        let third = try #require(CertificateFingerprint(try folder.tls("node-3").fingerprints[0]))
        let two = try Two(there: try folder.tls("node-2"), here: try folder.tls("node-1"))
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
        let nonce = [UInt8](repeating: 1, count: Greeting.nonceBytes)
        let hello = PeerIdentity.test(2).withNonce(nonce).encoded
        var greeting = Greeting(
            .test(1).withNonce(nonce), .listening, expected: nil, trust: .test(refused: list))
        let channel = Greeting.Channel(nodes: ["node-2"], certificates: forms)
        do throws(Greeting.Refusal) {
            _ = try greeting.hear(.hello, hello, channel: channel)
            Issue.record("the greeting was taken")
        } catch {
            #expect(error.isOfCertificate && error.reason.contains(forms[shown].text))
        }
        list.update([])
        _ = try greeting.hear(.hello, hello, channel: channel)
    }
}
