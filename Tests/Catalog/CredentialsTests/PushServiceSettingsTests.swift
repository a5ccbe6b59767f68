import Bytes
import Credentials
import Model
import Testing

@Suite("A project's settings for Apple's push service") struct APNsSettingsTests {
    private func key(_ bundleID: String, sandbox: Bool = false, byte: UInt8 = 1) -> APNsSettings.Key {
        APNsSettings.Key(
            isSandbox: sandbox, bundleID: bundleID, keyID: "ABC123DEFG", teamID: "DEF123GHIJ",
            privateBytes: [UInt8](repeating: byte, count: 32), created: WallTime(milliseconds: 5))
    }

    private func full() throws -> APNsSettings {
        var settings = APNsSettings()
        try settings.put(key("org.example.b"))
        try settings.put(key("org.example.a", sandbox: true))
        var other = key("org.example.a")
        other.host = "apns.example.com:8443"
        other.authority = Array("PEM".utf8)
        try settings.put(other)
        settings.isOn = false
        return settings
    }

    @Test("have one key for each app and environment: a second one replaces the first")
    func pairs() throws {
        var settings = try full()
        #expect(settings.keys.map(\.bundleID) == ["org.example.a", "org.example.b", "org.example.a"])
        #expect(settings.keys.map(\.isSandbox) == [false, false, true])
        try settings.put(key("org.example.a", byte: 7))
        #expect(settings.keys.count == 3)
        #expect(settings.key(isSandbox: false, bundleID: "org.example.a")?.privateBytes.first == 7)
        #expect(settings.key(isSandbox: true, bundleID: "org.example.a")?.privateBytes.first == 1)
        let isRemoved = settings.remove(isSandbox: true, bundleID: "org.example.a")
        let isRemovedAgain = settings.remove(isSandbox: true, bundleID: "org.example.a")
        #expect(isRemoved && !isRemovedAgain && settings.keys.count == 2)
    }

    @Test("refuse a key beyond the last place, and too many authorities")
    func bounds() throws {
        var settings = APNsSettings()
        for number in 0..<APNsSettings.keysMax { try settings.put(key("app\(number)")) }
        let refusal = #expect(throws: ChangeRefusal.self) { try settings.put(key("another")) }
        #expect(refusal?.reason == .precondition && settings.keys.count == APNsSettings.keysMax)
        try settings.put(key("app3", byte: 9))
        for number in 0..<APNsSettings.authoritiesMax {
            var own = key("app\(number)")
            own.authority = [1]
            try settings.put(own)
        }
        var own = key("app9")
        own.authority = [1]
        #expect(throws: ChangeRefusal.self) { try settings.put(own) }
        #expect(settings.key(isSandbox: false, bundleID: "app9")?.authority == nil)
    }

    @Test("survive their encoding, and are refused where they are cut, too long or of a newer build")
    func encoding() throws {
        #expect(try APNsSettings(decoding: APNsSettings().encoded) == APNsSettings())
        let settings = try full()
        let good = settings.encoded
        #expect(try APNsSettings(decoding: good) == settings)
        for count in good.indices {
            #expect(throws: DecodeError.self) { try APNsSettings(decoding: Array(good[..<count])) }
        }
        #expect(throws: DecodeError.self) { try APNsSettings(decoding: good + [0]) }
        #expect(throws: DecodeError.self) { try APNsSettings(decoding: [1, 2] + good.dropFirst(2)) }
        #expect { try APNsSettings(decoding: [2] + good.dropFirst()) } throws: {
            "\($0)".contains("from a newer tidecast")
        }
    }
}

@Suite("A project's settings for the relay to FCM") struct RelaySettingsTests {
    private func settings(tokenURI: String = "") -> RelaySettings {
        RelaySettings(
            account: RelaySettings.Account(
                projectID: "theirs", clientEmail: "a@b.example", keyID: "k1", privateKey: "PEM",
                tokenURI: tokenURI), created: WallTime(milliseconds: 5))
    }

    @Test("lead to Google, to the account's own token host, or below the endpoint")
    func places() {
        var own = settings()
        #expect(own.base == "https://fcm.googleapis.com")
        #expect(own.tokenURI == "https://oauth2.googleapis.com/token")
        own.endpoint = "https://fcm.example.com:8443"
        #expect(own.base == own.endpoint && own.tokenURI == "https://fcm.example.com:8443/token")
        own.account.tokenURI = "https://other.example/t"
        #expect(own.tokenURI == "https://other.example/t")
    }

    @Test("survive their encoding, and are refused where they are cut, too long or of a newer build")
    func encoding() throws {
        var full = settings(tokenURI: "https://t.example/token")
        full.endpoint = "https://fcm.example.com:8443"
        full.authority = Array("PEM".utf8)
        full.isOn = false
        for one in [settings(), full] { #expect(try RelaySettings(decoding: one.encoded) == one) }
        let good = full.encoded
        for count in good.indices {
            #expect(throws: DecodeError.self) { try RelaySettings(decoding: Array(good[..<count])) }
        }
        #expect(throws: DecodeError.self) { try RelaySettings(decoding: good + [0]) }
        #expect { try RelaySettings(decoding: [2] + good.dropFirst()) } throws: {
            "\($0)".contains("from a newer tidecast")
        }
    }
}

@Suite("A project's settings as a push service") struct UserAgentSettingsTests {
    @Test("survive their encoding, and are refused where they are cut, too long or of a newer build")
    func encoding() throws {
        var settings = PushServiceSettings(origin: "https://push.example.com:8443")
        #expect(try PushServiceSettings(decoding: settings.encoded) == settings && settings.isOn)
        settings.isOn = false
        let good = settings.encoded
        #expect(try PushServiceSettings(decoding: good) == settings)
        for count in good.indices {
            #expect(throws: DecodeError.self) { try PushServiceSettings(decoding: Array(good[..<count])) }
        }
        #expect(throws: DecodeError.self) { try PushServiceSettings(decoding: good + [0]) }
        #expect(throws: DecodeError.self) { try PushServiceSettings(decoding: [1, 2] + good.dropFirst(2)) }
        #expect { try PushServiceSettings(decoding: [2] + good.dropFirst()) } throws: {
            "\($0)".contains("from a newer tidecast")
        }
    }

    @Test("an account's token host is Google's, unless the operator names the service that goes with it")
    func tokenHost() throws {
        var settings = RelaySettings(
            account: RelaySettings.Account(
                projectID: "p", clientEmail: "e", keyID: "k", privateKey: "", tokenURI: ""),
            created: WallTime(milliseconds: 1))
        func refusal() -> ChangeRefusal? {
            do { try settings.check() } catch { return error }
            return nil
        }
        #expect(refusal() == nil)
        settings.account.tokenURI = "https://oauth2.googleapis.com/token"
        #expect(refusal() == nil)
        for uri in [
            "https://127.0.0.1/token", "https://evil.example/token", "https://oauth2.googleapis.com:1/",
        ] {
            settings.account.tokenURI = uri
            settings.endpoint = ""
            #expect(refusal()?.reason == .wrong(field: "serviceAccount"))
            settings.endpoint = "https://127.0.0.1:8443"
            #expect(refusal() == nil)
        }
        settings.account.tokenURI = "http://localhost/token"
        #expect(refusal()?.reason == .wrong(field: "serviceAccount"))
    }
}
