import COpenSSL
import Synchronization
import Testing

@testable import TLS

@Suite("Keys of session tickets") struct TicketKeyringTests {
    private let secret = [UInt8](0..<32)
    private let period = TicketKeyring.periodSeconds

    @Test("come from the secret and the time alone")
    func derived() throws {
        var here = try #require(TicketKeyring(secret: secret))
        var there = try #require(TicketKeyring(secret: secret))
        var stranger = try #require(TicketKeyring(secret: secret.reversed()))
        let begin = 1000 * period
        let current = here.current(begin)
        let key = try #require(current)
        let others = [begin + period - 1, begin + period, begin - 1].map { there.current($0) }
        #expect(others[0] == key && others[1] != key && others[2] != key)
        let strange = (stranger.current(begin), stranger.find(key.name, begin))
        #expect(strange.0 != key && strange.1 == nil)
        #expect(key.name.count == 16 && key.cipher.count == 32 && key.seal.count == 32)
        #expect(TicketKeyring(secret: []) == nil)
    }

    @Test("go with their secret")
    func goWithTheirSecret() throws {
        var ring = try #require(TicketKeyring(secret: secret))
        let before = ring.current(1000 * period)
        ring.change(secret: [])
        #expect(ring.current(1000 * period) == before, "a secret that is too short is none")
        ring.change(secret: secret.reversed())
        var other = try #require(TicketKeyring(secret: secret.reversed()))
        #expect(ring.current(1000 * period) == other.current(1000 * period))
        #expect(ring.find(try #require(before).name, 1000 * period) == nil)
    }

    /// Tickets must live on over an upgrade. `openssl kdf … HKDF` gives the same bytes.
    @Test("are the same in every build")
    func areTheSameInEveryBuild() throws {
        let key = try #require(TicketKeyring.key(secret, 82_000))
        let text = (key.name + key.cipher + key.seal).map {
            String($0 >> 4, radix: 16) + String($0 & 15, radix: 16)
        }
        #expect(
            text.joined()
                == "737428a3167a8b544ed36e56a9541c9b0685d6e048bf5faa2fd3a73c928a09e67cc472f178dd7657"
                + "c9d65cc1b1ebfe12e85e7ec6f50d57f9074b2a6e2f178070f4992b6ee050f2f9f7de3aeae6b5811e")
    }

    @Test("hold for the period after theirs, and for a clock that is a period behind")
    func holding() throws {
        var ring = try #require(TicketKeyring(secret: secret))
        let begin = 1000 * period
        let current = ring.current(begin)
        let name = try #require(current).name
        for (now, isKnown) in [
            (begin - period - 1, false), (begin - period, true), (begin - 1, true), (begin, true),
            (begin + period, true), (begin + 2 * period - 1, true), (begin + 2 * period, false),
            (begin, true),
        ] {
            let found = ring.find(name, now)
            #expect((found != nil) == isKnown, "\(now - begin)")
        }
        let early = [-1, -period, 0].map { ring.current($0) }
        #expect(early[0] == early[1] && early[0] != early[2])
    }
}

@Suite("A session", .serialized) struct ResumptionTests {
    /// A clock that tests set.
    final class Now: Sendable {
        let seconds = Atomic<Int64>(1000 * TicketKeyring.periodSeconds)
        func advance(_ by: Int64) { seconds.add(by, ordering: .relaxed) }
    }

    let folder: CertificateFolder
    let now = Now()

    init() throws { folder = try CertificateFolder() }

    private func server(_ files: [CertificateFiles], secret: UInt8? = 1) throws -> ServerTLS {
        let keys = secret.flatMap { TicketKeyring(secret: [UInt8](repeating: $0, count: 32)) }
        return try ServerTLS(files, tickets: keys) { [now] in now.seconds.load(ordering: .relaxed) }
    }

    /// Whether `second` resumes a session of `first`; `nil` where `first` gave no ticket.
    private func isResumed(
        _ first: ServerTLS, _ second: ServerTLS, _ version: Int32,
        name: String = "a.org",
        after seconds: Int64 = 0
    ) throws -> Bool? {
        let begun = try #require(try Handshake.run(first, .init(name: name, version: version)))
        #expect(!begun.isResumed && !begun.allowsEarlyData)
        guard let session = begun.session else { return nil }
        now.advance(seconds)
        let options = Handshake.Options(name: name, version: version, session: session)
        return try #require(try Handshake.run(second, options)).isResumed
    }

    @Test("resumes wherever the keys are the same", arguments: [TLS1_3_VERSION, TLS1_2_VERSION])
    func sameKeys(version: Int32) throws {
        let files = try folder.make("a", for: ["a.org"])
        let renewed = try folder.make("b", for: ["a.org"])
        let here = try server([files])
        #expect(try isResumed(here, here, version) == true)
        #expect(try isResumed(here, try server([files]), version) == true, "another process")
        #expect(try isResumed(here, try server([renewed]), version) == true, "another certificate")
        #expect(try isResumed(here, try server([files], secret: 2), version) == false, "another cluster")
        #expect(try isResumed(here, try server([files], secret: nil), version) == false)
        #expect(try isResumed(try server([files], secret: nil), here, version) == nil, "no ticket is given")
    }

    @Test("outlives one change of keys and not two", arguments: [TLS1_3_VERSION, TLS1_2_VERSION])
    func keyChanges(version: Int32) throws {
        let here = try server([try folder.make("a", for: ["a.org"])])
        let period = TicketKeyring.periodSeconds
        #expect(try isResumed(here, here, version, after: period) == true)
        #expect(try isResumed(here, here, version, after: 2 * period) == false)
    }

    @Test("outlives a reload of certificates", arguments: [TLS1_3_VERSION, TLS1_2_VERSION])
    func outlivesAReload(version: Int32) throws {
        let here = try server([try folder.make("a", for: ["a.org"])])
        let begun = try #require(try Handshake.run(here, .init(name: "a.org", version: version)))
        try folder.make("b", for: ["a.org"])
        try folder.copy("b", over: "a")
        #expect(here.look(isAsked: true).map(\.isTaken) == [true])
        let options = Handshake.Options(name: "a.org", version: version, session: begun.session)
        #expect(try #require(try Handshake.run(here, options)).isResumed)
    }

    @Test("resumes with a listener's further certificate", arguments: [TLS1_3_VERSION, TLS1_2_VERSION])
    func furtherCertificate(version: Int32) throws {
        let here = try server([
            try folder.make("a", for: ["a.org"]), try folder.make("b", for: ["b.org"]),
        ])
        #expect(try isResumed(here, here, version, name: "b.org") == true)
    }
}
