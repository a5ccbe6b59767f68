import COpenSSL
import Foundation
import Testing

@testable import TLS

@Suite("A listener's certificates", .serialized) struct ServerTLSTests {
    let folder: CertificateFolder

    init() throws { folder = try CertificateFolder() }

    private func commonName(_ server: ServerTLS, _ name: String?) throws -> String? {
        try Handshake.run(server, .init(name: name))?.commonName
    }

    @Test("come with ephemeral keys and authenticated encryption, and with no other suite")
    func cipherSuites() throws {
        let server = try ServerTLS([try folder.make("one", for: ["one.org"])], tickets: nil)
        func suite(_ suites: String) throws -> String? {
            try Handshake.run(server, .init(version: TLS1_2_VERSION, suites: suites))?.suite
        }
        for refused in [
            "ECDHE-ECDSA-AES128-SHA", "ECDHE-ECDSA-AES256-SHA384", "ECDHE-ECDSA-AES128-SHA256",
            "ECDHE-ECDSA-AES128-CCM", "AES128-GCM-SHA256", "AES128-SHA", "DHE-RSA-AES128-GCM-SHA256",
        ] {
            #expect(try suite(refused) == nil, "\(refused)")
        }
        for taken in [
            "ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305",
        ] {
            #expect(try suite(taken) == taken)
        }
        #expect(try suite("ECDHE-ECDSA-AES128-SHA:ECDHE-ECDSA-AES128-GCM-SHA256")?.contains("GCM") == true)
        let (aes, aes256) = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384")
        let chacha = "TLS_CHACHA20_POLY1305_SHA256"
        for (offered, expected) in [
            ([aes256, chacha, aes], aes), ([aes256], aes256), ([chacha, aes, aes256], chacha),
        ] {
            let options = Handshake.Options(newSuites: offered.joined(separator: ":"))
            #expect(try Handshake.run(server, options)?.suite == expected, "\(offered)")
        }
    }

    @Test("are chosen by the name that is asked for")
    func chosenByName() throws {
        let server = try ServerTLS(
            [
                try folder.make("first", for: ["first.org"]),
                try folder.make("wild", for: ["*.second.org"]),
                try folder.make("second", for: ["api.second.org", "second.org"]),
            ], tickets: nil)
        for (name, expected) in [
            ("first.org", "first"), ("www.second.org", "wild"), ("api.second.org", "second"),
            ("SECOND.org", "second"), ("a.www.second.org", "first"), ("third.org", "first"), (nil, "first"),
        ] {
            #expect(try commonName(server, name) == expected, "\(name ?? "no name")")
            let older = Handshake.Options(name: name, version: TLS1_2_VERSION)
            #expect(try Handshake.run(server, older)?.commonName == expected)
        }
    }

    @Test("are taken when their files have changed and stand still")
    func changedFiles() throws {
        let files = try folder.make("now", for: ["now.org"])
        let server = try ServerTLS([files], tickets: nil)
        try folder.make("next", for: ["now.org"])
        #expect(server.look().isEmpty)
        try folder.copy("next", over: "now")
        #expect(server.look().isEmpty && server.look().map(\.isTaken) == [true] && server.look().isEmpty)
        #expect(try commonName(server, "now.org") == "next")
        #expect(server.certificates[0].certificate.notAfter > Int64(Date().timeIntervalSince1970) + 86_400)
    }

    @Test("are taken only where key and certificate fit, each pair for itself")
    func onlyAPairThatFitsIsTaken() throws {
        let server = try ServerTLS(
            [
                try folder.make("now", for: ["now.org"]), try folder.make("other", for: ["other.org"]),
            ], tickets: nil)
        try folder.make("next", for: ["now.org"])
        try folder.make("later", for: ["other.org"])
        try folder.write(try folder.text("next.key"), to: "now.key")
        try folder.copy("later", over: "other")
        let news = server.look(isAsked: true)
        #expect(news.map(\.isTaken) == [false, true], "each pair for itself")
        #expect(news[0].reason?.contains("now.key is not the key of the certificate in") == true)
        #expect(try commonName(server, "now.org") == "now")
        #expect(try commonName(server, "other.org") == "later")
        try folder.write(try folder.text("next.pem"), to: "now.pem")
        #expect(server.look(isAsked: true).map(\.isTaken) == [true, false])
        #expect(try commonName(server, "now.org") == "next")
        try folder.remove("now.pem")
        #expect(server.look(isAsked: true)[0].reason?.hasSuffix("now.pem: no such file") == true)
        #expect(try commonName(server, "now.org") == "next")
    }

    /// Kubernetes does this: the files are links into a folder that is itself a link, and it replaces that
    /// link.
    @Test("are taken where a link leads elsewhere")
    func movedLink() throws {
        try folder.make("a", for: ["now.org"])
        try folder.make("b", for: ["now.org"])
        for (name, directory) in [("a", "1"), ("b", "2")] {
            try folder.makeFolder(directory)
            for kind in ["pem", "key"] { try folder.move("\(name).\(kind)", to: "\(directory)/s.\(kind)") }
        }
        try folder.link("data", to: "1")
        for kind in ["pem", "key"] { try folder.link("s.\(kind)", to: "data/s.\(kind)") }
        let server = try ServerTLS([folder.files("s")], tickets: nil)
        #expect(try commonName(server, nil) == "a")
        try folder.link("new", to: "2")
        try folder.move("new", to: "data")
        #expect(server.look().isEmpty && server.look().map(\.isTaken) == [true])
        #expect(try commonName(server, nil) == "b")
    }

    @Test("are refused with the file and what is wrong with it")
    func whatCannotBeUsedIsSaid() throws {
        let good = try folder.make("good", for: ["good.org"])
        try folder.make("other", for: ["other.org"])
        try folder.encrypt("good", to: "encrypted.key")
        let (chain, other) = (try folder.text("good.pem"), try folder.text("other.pem"))
        let short = String(chain.prefix(300))
        try folder.write(short, to: "short.pem")
        try folder.write(other + chain, to: "turned.pem")
        try folder.write(chain + short, to: "half.pem")
        try folder.write("", to: "empty.pem")
        try folder.write("hello\n", to: "text.key")
        try folder.write(String(try folder.text("good.key").prefix(100)), to: "short.key")
        try folder.makeFolder("folder")
        func reason(_ chain: String, _ key: String) -> String? {
            let files = CertificateFiles(chain: "\(folder.path)/\(chain)", key: "\(folder.path)/\(key)")
            do throws(TLSError) {
                _ = try ServerTLS([files], tickets: nil)
                return nil
            } catch {
                return error.description.replacingOccurrences(of: "\(folder.path)/", with: "")
            }
        }
        #expect(reason("good.pem", "good.key") == nil)
        #expect(reason("none.pem", "good.key") == "none.pem: no such file")
        #expect(reason("good.pem", "none.key") == "none.key: no such file")
        #expect(reason("folder", "good.key") == "folder cannot be read: Is a directory")
        #expect(reason("empty.pem", "good.key") == "empty.pem: the file holds no certificate")
        #expect(reason("good.key", "good.key") == "good.key: the file holds no certificate")
        #expect(
            reason("short.pem", "good.key")?.hasPrefix("short.pem: certificate 1 cannot be read (") == true)
        #expect(reason("half.pem", "good.key")?.hasPrefix("half.pem: certificate 2 cannot be read (") == true)
        #expect(reason("good.pem", "text.key") == "text.key: the file holds no private key")
        #expect(reason("good.pem", "good.pem") == "good.pem: the file holds no private key")
        #expect(
            reason("good.pem", "short.key")?.hasPrefix("short.key: the private key cannot be read") == true)
        #expect(reason("good.pem", "encrypted.key")?.hasPrefix("encrypted.key is encrypted") == true)
        #expect(reason("good.pem", "other.key") == "other.key is not the key of the certificate in good.pem")
        #expect(
            reason("turned.pem", "good.key")
                == "good.key is the key of certificate 2 in turned.pem: the server's own certificate must"
                + " stand first")
        #expect(throws: TLSError.self) { try ServerTLS([], tickets: nil) }
        #expect(CertificateFiles(chain: good.chain, key: good.key) == good)
    }
}

extension CertificateNews {
    var isTaken: Bool { if case .taken = outcome { true } else { false } }
    var reason: String? { if case .refused(let reason) = outcome { reason } else { nil } }
}
