import Bytes
import Credentials
import Model
import Testing

@Suite("A project's settings for Web Push") struct WebPushSettingsTests {
    private func key(_ byte: UInt8) -> WebPushSettings.Key {
        WebPushSettings.Key(
            privateBytes: [UInt8](repeating: byte, count: 32),
            publicBytes: [4] + [UInt8](repeating: byte, count: 64),
            created: WallTime(milliseconds: Int64(byte)))
    }

    private func full() throws -> WebPushSettings {
        var settings = WebPushSettings(subject: "mailto:push@example.com", key: key(1))
        try settings.add(key(2))
        settings.hosts = ["push.example.com:8443", "*.example.org"]
        settings.authority = Array("PEM".utf8)
        settings.isOn = false
        return settings
    }

    @Test("survive their encoding")
    func encoding() throws {
        for settings in [WebPushSettings(subject: "mailto:a@b.example", key: key(9)), try full()] {
            #expect(try WebPushSettings(decoding: settings.encoded) == settings)
        }
    }

    @Test("have the newest key first, and refuse a key beyond the eighth")
    func keys() throws {
        var settings = WebPushSettings(subject: "mailto:a@b.example", key: key(1))
        for byte in 2...8 { try settings.add(key(UInt8(byte))) }
        #expect(settings.keys.first == key(8) && settings.keys.last == key(1))
        let refusal = #expect(throws: ChangeRefusal.self) { try settings.add(key(9)) }
        #expect(refusal?.reason == .precondition && settings.keys.count == 8)
    }

    @Test("are refused where they are cut, too long, of a newer build or without a key")
    func malformed() throws {
        let good = try full().encoded
        for count in good.indices {
            #expect(throws: DecodeError.self) { try WebPushSettings(decoding: Array(good[..<count])) }
        }
        #expect(throws: DecodeError.self) { try WebPushSettings(decoding: good + [0]) }
        #expect(throws: DecodeError.self) { try WebPushSettings(decoding: [1, 2] + good.dropFirst(2)) }
        #expect(throws: DecodeError.self) { try WebPushSettings(decoding: [1, 1, 0, 0, 0, 0]) }
        let newer = #expect(throws: DecodeError.self) {
            try WebPushSettings(decoding: [2] + good.dropFirst())
        }
        #expect(newer?.description.contains("from a newer tidecast") == true)
    }
}
