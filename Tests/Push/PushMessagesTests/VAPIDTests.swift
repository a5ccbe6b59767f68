import Model
import Testing

@testable import PushMessages

@Suite("VAPID")
struct VAPIDTests {
    private let now = WallTime(milliseconds: 1_453_500_000_000)

    /// Also shows that `verifies` takes a foreign signature.
    @Test("is what RFC 8292, section 2.4, shows: its token is verified, and our claims are its claims")
    func vector() throws {
        let head = "eyJ0eXAiOiJKV1QiLCJhbGciOiJFUzI1NiJ9"
        let claims =
            "eyJhdWQiOiJodHRwczovL3B1c2guZXhhbXBsZS5uZXQiLCJleHAiOjE0NTM1MjM3NjgsInN1YiI6Im1haWx0bzpwdXNo"
            + "QGV4YW1wbGUuY29tIn0"
        let signature =
            "i3CYb7t4xfxCDquptFOepC9GAu_HLGkMlMuCGSK2rpiUfnK9ojFwDXb1JrErtmysazNjjvW2L9OkSSHzvoD1oA"
        let key = "BA1Hxzyi1RUM1b5wjxsn7nGxAszw2u61m164i3MrAIxHF6YK5h4SDYic-dRuU_RCPCfA5aq9ojSwk5Y2EmClBPs"
        #expect(
            verifies(
                Array("\(head).\(claims)".utf8), signature: try base64(signature),
                publicBytes: try base64(key)))
        let own = try VAPID(key: P256Key.generate(), subject: "mailto:push@example.com").authorization(
            origin: "https://push.example.net", now: now)
        #expect(own.hasPrefix("vapid t=\(head)."))
        let said = try base64(String(own.split(separator: ".")[1]))
        #expect(
            String(decoding: said, as: UTF8.self)
                == #"{"aud":"https://push.example.net","exp":1453528800,"sub":"mailto:push@example.com"}"#)
    }

    @Test("is signed by the key that it names")
    func signed() throws {
        let key = try P256Key.generate()
        let value = try VAPID(key: key, subject: #"mailto:"a\b"@example.com"#).authorization(
            origin: "https://push.example.net:8443", now: now)
        let parts = value.dropFirst("vapid t=".count).split(separator: ",")
        #expect(parts.count == 2 && parts[1].hasPrefix(" k="))
        #expect(try base64(String(parts[1].dropFirst(3))) == key.publicBytes)
        let token = parts[0].split(separator: ".")
        #expect(
            verifies(
                Array("\(token[0]).\(token[1])".utf8), signature: try base64(String(token[2])),
                publicBytes: key.publicBytes))
        let claims = String(decoding: try base64(String(token[1])), as: UTF8.self)
        #expect(claims.contains(#""sub":"mailto:\"a\\b\"@example.com""#))
        #expect(claims.contains(#""aud":"https://push.example.net:8443""#))
    }

    @Test("expires 6 to 12 hours ahead, and at one time for six hours")
    func expiry() {
        let hour: Int64 = 3600
        for (seconds, wanted) in [
            (0, 12 * hour), (6 * hour - 1, 12 * hour), (6 * hour, 18 * hour), (1_453_500_000, 1_453_528_800),
        ] as [(Int64, Int64)] {
            #expect(VAPID.expiry(WallTime(milliseconds: seconds * 1000)) == wanted)
            #expect((6 * hour + 1...12 * hour).contains(wanted - seconds) || wanted - seconds == 6 * hour + 1)
        }
    }

    @Test(
        "takes a subject that push services take",
        arguments: [
            "mailto:push@example.com", "mailto:a.b+c@sub.example.org?subject=push", "https://example.com",
            "https://example.com/contact", "https://example.com:8443/",
        ])
    func goodSubject(subject: String) { #expect(VAPID.check(subject: subject) == nil) }

    @Test(
        "refuses a subject that a push service refuses",
        arguments: [
            "", "push@example.com", "http://example.com", "tel:1", "mailto:", "mailto:push",
            "mailto:@example.com",
            "mailto:push@localhost", "mailto:push@host", "mailto:push@a.local", "mailto:push@a.invalid",
            "mailto:push@a.test", "mailto:push@a.localhost", "mailto: <push@example.com>",
            "mailto:a@b@example.com",
            "mailto:push@[127.0.0.1]", "mailto:push@127.0.0.1", "mailto:push@a..com", "https://localhost/",
            "https://127.0.0.1/", "https://u@example.com/", "https:///", "https://ex ample.com",
            "mailto:ö@example.com",
            "mailto:\"a\"@example.com", "mailto:\(String(repeating: "a", count: 250))@example.com",
        ])
    func badSubject(subject: String) { #expect(VAPID.check(subject: subject) != nil) }
}
