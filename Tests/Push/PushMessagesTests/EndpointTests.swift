import Model
import PushMessages
import Testing

@Suite("The endpoint of a subscription")
struct EndpointTests {
    private let closed = EndpointPolicy(listed: [])

    @Test(
        "is taken where it is at one of the four vendors",
        arguments: [
            ("https://fcm.googleapis.com/fcm/send/c:A-b_c", "fcm.googleapis.com", "/fcm/send/c:A-b_c"),
            ("https://fcm.googleapis.com/wp/x", "fcm.googleapis.com", "/wp/x"),
            ("https://android.googleapis.com/gcm/send/x", "android.googleapis.com", "/gcm/send/x"),
            (
                "https://updates.push.services.mozilla.com/wpush/v2/gAAA==",
                "updates.push.services.mozilla.com", "/wpush/v2/gAAA=="
            ),
            ("https://web.push.apple.com/Q123", "web.push.apple.com", "/Q123"),
            (
                "https://db5p.notify.windows.com/w/?token=BQ%2ba", "db5p.notify.windows.com",
                "/w/?token=BQ%2ba"
            ),
            ("HTTPS://WEB.Push.Apple.COM:443/Q/aB", "web.push.apple.com", "/Q/aB"),
            ("https://web.push.apple.com?a/b", "web.push.apple.com", "/?a/b"),
            ("https://web.push.apple.com", "web.push.apple.com", "/"),
        ])
    func vendors(text: String, host: String, path: String) throws {
        let endpoint = try PushEndpoint.parse(text, policy: closed)
        #expect(endpoint.host == host && endpoint.port == 443 && endpoint.path == path)
        #expect(endpoint.origin == "https://\(host)" && endpoint.url == "https://\(host)\(path)")
        #expect(try PushEndpoint.parse(endpoint.url, policy: closed) == endpoint)
    }

    @Test(
        "is refused with the reason where it is elsewhere, or no URL that the server would call",
        arguments: [
            ("https://example.com/", .notAllowed(host: "example.com", port: 443)),
            ("https://fcm.googleapis.com:22/", .notAllowed(host: "fcm.googleapis.com", port: 22)),
            ("https://fcm.googleapis.com.a.com/", .notAllowed(host: "fcm.googleapis.com.a.com", port: 443)),
            ("https://afcm.googleapis.com/", .notAllowed(host: "afcm.googleapis.com", port: 443)),
            ("https://apush.apple.com/", .notAllowed(host: "apush.apple.com", port: 443)),
            ("https://push.apple.com/", .notAllowed(host: "push.apple.com", port: 443)),
            ("https://localhost/", .notAllowed(host: "localhost", port: 443)),
            ("https://fcm.googleapis.com@a.com/", .userInformation),
            ("https://a:b@fcm.googleapis.com/", .userInformation),
            ("https://fcm.googleapis.com/a#b", .fragment), ("https://a.com#fcm.googleapis.com/", .fragment),
            ("http://fcm.googleapis.com/", .scheme), ("ftp://fcm.googleapis.com/", .scheme),
            ("//fcm.googleapis.com/", .scheme), ("https:/fcm.googleapis.com/", .scheme), ("", .scheme),
            ("https://a.com\\@fcm.googleapis.com/", .characters),
            ("https://fcm.googleapis.com/a b", .characters),
            ("https://fcm.googleapis.com/a\r\nb: c", .characters),
            ("https://fcm.googleapis.com/\u{0}", .characters), ("https://fcm.googleapis.com/ö", .characters),
            ("https://fcm\u{212A}.com/", .characters),
            ("https://", .host), ("https:///a", .host), ("https://:443/", .host),
            ("https://fcm.googleapis.com./", .host), ("https://a..push.apple.com/", .host),
            ("https://-a.push.apple.com/", .host), ("https://a%2e.push.apple.com/", .host),
            ("https://127.0.0.1/", .host), ("https://127.1/", .host), ("https://2130706433/", .host),
            ("https://0x7f000001/", .host), ("https://0177.0.0.1/", .host), ("https://a.1/", .host),
            ("https://[::1]/", .host), ("https://[::1]:443/", .host), ("https://[::ffff:127.0.0.1]/", .host),
            ("https://[::1/", .host), ("https://[web.push.apple.com]/", .host), ("https://[::1]a/", .host),
            ("https://web.push.apple.com:/", .port), ("https://web.push.apple.com:0/", .port),
            ("https://web.push.apple.com:65536/", .port), ("https://web.push.apple.com:443a/", .port),
            ("https://web.push.apple.com:+443/", .port), ("https://web.push.apple.com:443:443/", .port),
        ] as [(String, PushEndpointError)])
    func refused(text: String, reason: PushEndpointError) {
        #expect(throws: reason) { try PushEndpoint.parse(text, policy: closed) }
    }

    @Test("has at most 2048 bytes, a host of at most 253 and labels of at most 63")
    func bounds() throws {
        let start = "https://web.push.apple.com/"
        let longest = start + String(repeating: "a", count: 2048 - start.utf8.count)
        #expect(try PushEndpoint.parse(longest, policy: closed).url == longest)
        #expect(throws: PushEndpointError.tooLong(bytes: 2049)) {
            try PushEndpoint.parse(longest + "a", policy: closed)
        }
        let label = String(repeating: "a", count: 63)
        #expect(try PushEndpoint.parse("https://\(label).push.apple.com/", policy: closed).port == 443)
        #expect(throws: PushEndpointError.host) {
            try PushEndpoint.parse("https://\(label)a.push.apple.com/", policy: closed)
        }
        let name = "\(label).\(label).\(label).\(label).push.apple.com"
        #expect(throws: PushEndpointError.host) {
            try PushEndpoint.parse("https://\(name)/", policy: closed)
        }
    }

    @Test("never makes the reader fail otherwise, whatever the bytes are")
    func fuzzed() {
        var generator = SeededGenerator(seed: 3)
        let good = Array("https://updates.push.services.mozilla.com:443/wpush/v2/gA?b=c".utf8)
        let policy = EndpointPolicy(listed: ["*", "[::1]:443", "*.a:1"])
        for _ in 0..<5000 {
            var bytes = good
            for _ in 0..<Int.random(in: 1...6, using: &generator) {
                let index = Int.random(in: 0..<bytes.count, using: &generator)
                bytes[index] = UInt8.random(in: 0...255, using: &generator)
            }
            let text = String(decoding: bytes, as: UTF8.self)
            guard let endpoint = try? PushEndpoint.parse(text, policy: policy) else { continue }
            #expect((try? PushEndpoint.parse(endpoint.url, policy: policy)) == endpoint)
            #expect(endpoint.path.hasPrefix("/") && !endpoint.host.isEmpty)
        }
    }
}

@Suite("The operator's list of push services")
struct EndpointPolicyTests {
    private func allows(_ listed: [String], _ url: String) -> Bool {
        (try? PushEndpoint.parse(url, policy: EndpointPolicy(listed: listed))) != nil
    }

    @Test("allows what it names, with the port that it names")
    func listed() {
        #expect(allows(["push.example.org"], "https://push.example.org/a"))
        #expect(allows(["Push.Example.ORG"], "https://push.example.org/a"))
        #expect(!allows(["push.example.org"], "https://push.example.org:8443/a"))
        #expect(!allows(["push.example.org:8443"], "https://push.example.org/a"))
        #expect(allows(["push.example.org:8443"], "https://push.example.org:8443/a"))
        #expect(allows(["push:8443"], "https://push:8443/"))
        #expect(allows(["*.example.org"], "https://a.b.example.org/"))
        #expect(!allows(["*.example.org"], "https://example.org/"))
        #expect(!allows(["*.example.org"], "https://aexample.org/"))
        #expect(allows(["*.example.org:1"], "https://a.example.org:1/"))
        #expect(allows(["127.0.0.1:8443"], "https://127.0.0.1:8443/"))
        #expect(!allows(["127.0.0.1:8443"], "https://127.0.0.1/"))
        #expect(!allows(["127.0.0.1:8443"], "https://127.1:8443/"))
        #expect(allows(["[::1]:8443"], "https://[0:0::1]:8443/"))
        #expect(allows(["web.push.apple.com:2197"], "https://web.push.apple.com/"))
    }

    @Test("with a star allows each name with a dot at port 443, and no address")
    func open() {
        #expect(allows(["*"], "https://push.example.org/"))
        #expect(!allows(["*"], "https://push.example.org:8443/"))
        #expect(!allows(["*"], "https://localhost/"))
        #expect(!allows(["*"], "https://8.8.8.8/"))
        #expect(!allows(["*"], "https://[2600::1]/"))
    }

    @Test("shows a listed IPv6 address in brackets in the origin")
    func origin() throws {
        let policy = EndpointPolicy(listed: ["[fd00::a]:8443"])
        let endpoint = try PushEndpoint.parse("https://[FD00::A]:8443/x", policy: policy)
        #expect(endpoint.host == "fd00:0:0:0:0:0:0:a")
        #expect(endpoint.origin == "https://[fd00:0:0:0:0:0:0:a]:8443")
        #expect(try PushEndpoint.parse(endpoint.url, policy: policy) == endpoint)
    }

    @Test(
        "says which entry is wrong",
        arguments: [
            "", "https://a.org", "a.org/", "a..org", "*.", "*.*.org", "**", "a.*", "a.org:", "a.org:0", "a b",
            "a.org:70000", "*.127.0.0.1:1", "127.0.0.1", "[::1]", "::1", "127.1:80", "\u{212A}.org",
        ])
    func malformed(entry: String) {
        #expect(EndpointPolicy.check(listed: entry) != nil)
        #expect(!allows([entry], "https://a.org/") && !allows([entry], "https://127.0.0.1/"))
    }

    @Test(
        "takes a right entry",
        arguments: ["*", "a.org", "a.org:8443", "*.a.org", "*.a.org:1", "push", "127.0.0.1:1", "[::1]:1"])
    func wellFormed(entry: String) { #expect(EndpointPolicy.check(listed: entry) == nil) }
}

@Suite("The address of a push service")
struct DialTests {
    private static func mayDial(_ address: [UInt8], listed: [String] = [], url: String? = nil) throws -> Bool
    {
        let policy = EndpointPolicy(listed: listed)
        let endpoint = try PushEndpoint.parse(url ?? "https://web.push.apple.com/", policy: policy)
        return policy.mayDial(address, for: endpoint)
    }

    /// The last address of a range, or the first.
    @Test(
        "is never one of the special ranges of IPv4, from their first to their last",
        arguments: [
            ([0, 0, 0, 0], [0, 255, 255, 255]), ([10, 0, 0, 0], [10, 255, 255, 255]),
            ([100, 64, 0, 0], [100, 127, 255, 255]), ([127, 0, 0, 0], [127, 255, 255, 255]),
            ([169, 254, 0, 0], [169, 254, 255, 255]), ([172, 16, 0, 0], [172, 31, 255, 255]),
            ([192, 0, 0, 0], [192, 0, 0, 255]), ([192, 0, 2, 0], [192, 0, 2, 255]),
            ([192, 88, 99, 0], [192, 88, 99, 255]), ([192, 168, 0, 0], [192, 168, 255, 255]),
            ([198, 18, 0, 0], [198, 19, 255, 255]), ([198, 51, 100, 0], [198, 51, 100, 255]),
            ([203, 0, 113, 0], [203, 0, 113, 255]), ([224, 0, 0, 0], [239, 255, 255, 255]),
            ([240, 0, 0, 0], [255, 255, 255, 255]),
        ] as [([UInt8], [UInt8])])
    func ranges(first: [UInt8], last: [UInt8]) throws {
        #expect(try !DialTests.mayDial(first) && !DialTests.mayDial(last))
    }

    @Test(
        "may be any other of IPv4, also beside a special range",
        arguments: [
            [1, 0, 0, 0], [9, 255, 255, 255], [11, 0, 0, 0], [17, 253, 144, 10], [100, 63, 255, 255],
            [100, 128, 0, 0], [126, 255, 255, 255], [128, 0, 0, 0], [169, 253, 255, 255], [169, 255, 0, 0],
            [172, 15, 255, 255], [172, 32, 0, 0], [192, 0, 1, 0], [192, 0, 3, 0], [192, 167, 255, 255],
            [192, 169, 0, 0], [198, 17, 255, 255], [198, 20, 0, 0], [203, 0, 112, 255], [223, 255, 255, 255],
        ] as [[UInt8]])
    func others(address: [UInt8]) throws { #expect(try DialTests.mayDial(address)) }

    @Test(
        "is never a special one of IPv6",
        arguments: [
            "::", "::1", "::ffff:8.8.8.8", "::8.8.8.8", "64:ff9b::808:808", "64:ff9b:1::1", "100::1",
            "fc00::1",
            "fdff::1", "fe80::1", "febf::1", "fec0::1", "ff02::1", "2001::1", "2001:1ff::1", "2001:db8::1",
            "2002:7f00:1::1", "3fff::1", "3fff:fff::1", "5f00::1", "4000::1", "1fff::1",
        ])
    func special(text: String) throws { #expect(try !DialTests.mayDial(address(text))) }

    @Test(
        "may be a global one of IPv6",
        arguments: ["2001:200::1", "2600:1901:0:92a9::", "2a00:1450:4001::a", "2620:149:a44::1", "3ffe::1"])
    func global(text: String) throws { #expect(try DialTests.mayDial(address(text))) }

    @Test("has 4 or 16 bytes", arguments: [0, 3, 5, 15, 17])
    func lengths(count: Int) throws {
        let bytes = [UInt8](repeating: 0x22, count: count)
        #expect(try !DialTests.mayDial(bytes))
        #expect(try !DialTests.mayDial(bytes, listed: ["a.org"], url: "https://a.org/"))
    }

    @Test("may be anything where the operator lists the very host and port, and nothing private below a name")
    func listed() throws {
        let loopback: [UInt8] = [127, 0, 0, 1]
        #expect(try DialTests.mayDial(loopback, listed: ["a.org"], url: "https://a.org/"))
        #expect(try !DialTests.mayDial(loopback, listed: ["*.org:1"], url: "https://a.org:1/"))
        #expect(try DialTests.mayDial(loopback, listed: ["*.org:1", "a.org:1"], url: "https://a.org:1/"))
        #expect(try DialTests.mayDial(loopback, listed: ["127.0.0.1:1"], url: "https://127.0.0.1:1/"))
        #expect(try DialTests.mayDial(address("::1"), listed: ["a.org"], url: "https://a.org/"))
        #expect(try !DialTests.mayDial(loopback, listed: ["*"], url: "https://a.org/"))
        #expect(try !DialTests.mayDial(loopback, listed: ["*", "a.org:1"], url: "https://a.org/"))
        #expect(try DialTests.mayDial([8, 8, 8, 8], listed: ["*"], url: "https://a.org/"))
    }

    /// Reads an IPv6 address through an endpoint, which shows all eight groups.
    private func address(_ text: String) throws -> [UInt8] {
        let policy = EndpointPolicy(listed: ["[\(text)]:1"])
        let host = try PushEndpoint.parse("https://[\(text)]:1/", policy: policy).host
        return try host.split(separator: ":").flatMap { group in
            let number = try #require(UInt16(group, radix: 16))
            return [UInt8(number >> 8), UInt8(number & 0xFF)]
        }
    }
}
