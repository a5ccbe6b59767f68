import Testing

@testable import TLS

@Suite("Which certificate is for a name") struct CertificateNamesTests {
    @Test(
        "follows from exact names, and from wildcards for one whole label",
        arguments: [
            (["example.org"], "example.org", CertificateNames.Match.exact),
            (["Example.ORG"], "eXample.org", .exact),
            (["example.org"], "example.org.", .exact),
            (["example.org"], "www.example.org", .none),
            (["*.example.org"], "www.example.org", .wildcard),
            (["*.example.org"], "WWW.EXAMPLE.ORG.", .wildcard),
            (["*.example.org"], "example.org", .none),
            (["*.example.org"], "a.b.example.org", .none),
            (["*.example.org"], ".example.org", .none),
            (["*.example.org", "www.example.org"], "www.example.org", .exact),
            (["w*.example.org"], "www.example.org", .none),
            (["*w.example.org"], "www.example.org", .none),
            (["www.*.org"], "www.example.org", .none),
            (["*.*.org"], "www.example.org", .none),
            (["*"], "localhost", .none),
            (["*."], "localhost", .none),
            (["*.example.org"], "*.example.org", .wildcard),
            ([], "example.org", .none),
            ([""], "", .none),
            (["192.0.2.1"], "192.0.2.1", .exact),
            (["bücher.example"], "BüCHER.example", .exact),
        ])
    func match(names: [String], host: String, expected: CertificateNames.Match) {
        #expect(CertificateNames(names).match(host) == expected)
    }

    @Test("is the first with the exact name, then the first wildcard, then the first of all")
    func chosen() {
        let all = [["a.org"], ["*.b.org", "b.org"], ["x.b.org"], ["*.b.org", "x.b.org"]]
            .map { CertificateNames($0) }
        func choice(_ host: String) -> Int { CertificateNames.choice(for: host, among: all) }
        #expect(choice("a.org") == 0)
        #expect(choice("y.b.org") == 1, "the first of two wildcards")
        #expect(choice("x.b.org") == 2, "the first of two exact ones, though a wildcard stands before it")
        #expect(choice("c.org") == 0)
        #expect(choice("") == 0)
        #expect(CertificateNames.choice(for: "a.org", among: []) == 0)
    }
}
