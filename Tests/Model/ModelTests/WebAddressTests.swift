import Model
import Testing

@Suite("An address at a Web Push service") struct WebAddressTests {
    private func address(_ endpoint: String) -> WebAddress {
        WebAddress(
            keyID: 0x0102_0304_0506_07FF, p256dh: [4] + [UInt8](repeating: 8, count: 64),
            auth: Array(0..<16), endpoint: endpoint)
    }

    @Test("survives its packing, and its longest form fits into a transport")
    func packing() {
        let longest = "https://push.example.com/" + String(repeating: "x", count: 2023)
        let tail = String(repeating: "aZ-_09Q", count: 20)
        for endpoint in [
            "https://push.example.com/a?b=c", longest, "https://a.example?" + tail + "/",
            "https://a.example/" + tail, "https://a.example/\(tail):\(tail)%2b\(tail)==",
            "https://a.example/" + tail + "/x",
            "https://a.example/" + String(repeating: "x", count: 300) + "/" + tail,
        ] {
            let one = address(endpoint)
            #expect(WebAddress(packed: one.packed) == one)
            #expect(one.packed.count <= Transport.addressBytesMax)
            #expect(Array(one.packed[1..<9]) == [1, 2, 3, 4, 5, 6, 7, 255])
        }
    }

    @Test("is none where the bytes are too few, too many, of another format or no text")
    func malformed() {
        let good = address("https://a.example/b").packed
        for count in 0...90 { #expect(WebAddress(packed: Array(good[..<count])) == nil) }
        #expect(WebAddress(packed: [2] + good.dropFirst()) == nil)
        #expect(WebAddress(packed: [3] + good.dropFirst()) == nil)
        #expect(WebAddress(packed: good + [0xFF]) == nil)
        let short = address("https://a.example/" + String(repeating: "A", count: 40)).packed
        #expect(short[0] == 2)
        for count in 0..<short.count {
            // A part may be a shorter endpoint, and never a longer one.
            let part = WebAddress(packed: Array(short[..<count]))
            #expect(part.map { "https://a.example/".hasPrefix($0.endpoint) } ?? true)
        }
        #expect(WebAddress(packed: short + [0x80]) == nil)
        #expect(WebAddress(packed: short + [0x80, 2, 0]) == nil)
        #expect(WebAddress.origin(ofPacked: Array(short[..<91])) == nil)
        #expect(WebAddress(packed: good + [UInt8](repeating: 65, count: 2048)) == nil)
        #expect(WebAddress.origin(ofPacked: Array(good[..<90])) == nil)
        #expect(WebAddress.origin(ofPacked: [2] + good.dropFirst()) == nil)
    }

    @Test("takes fewer bytes where the endpoint's last part is Base64url")
    func short() throws {
        var random = SeededGenerator(seed: 7)
        for _ in 0..<200 {
            let count = Int.random(in: 30...200, using: &random)
            let bytes = (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }
            let text = String(decoding: Base64URL.encode(bytes), as: UTF8.self)
            let one = address("https://push.example.com/send/dQw4w9WgXcQ:" + text)
            #expect(WebAddress(packed: one.packed) == one)
            let rest = text.utf8.count % 4
            let tail = text.utf8.count / 4 * 3 + (rest > 0 ? 2 + rest : 0)
            #expect(one.packed.count == 90 + 1 + 30 + 2 + 12 + 2 + tail)
        }
    }

    @Test(
        "has the origin of its endpoint",
        arguments: [
            ("https://a.example/b/c", "https://a.example"),
            ("https://a.example:8443/", "https://a.example:8443"),
            ("https://a.example?b=/c", "https://a.example"), ("https://a.example", "https://a.example"),
            ("https://a.example/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "https://a.example"),
            ("https://[fd00:0:0:0:0:0:0:1]:8443/x", "https://[fd00:0:0:0:0:0:0:1]:8443"),
        ])
    func origin(endpoint: String, origin: String) throws {
        let one = address(endpoint)
        #expect(String(one.origin) == origin)
        let bytes = try #require(WebAddress.origin(ofPacked: one.packed))
        #expect(String(decoding: bytes, as: UTF8.self) == origin)
    }
}

@Suite("The id of a message")
struct MessageIDTests {
    @Test("stands at the beginning of the message's event")
    func ofEvent() {
        let id = MessageID(time: 0x0123_4567_89AB_CDEF, random: 5)
        let event = Array(#"{"messageId":"\#(id.text)","from":"/topics/a"}"#.utf8)
        #expect(MessageID(ofEvent: event) == id)
        #expect(MessageID(ofEvent: event.dropFirst()) == nil)
        for count in 0..<45 { #expect(MessageID(ofEvent: event.prefix(count)) == nil) }
        #expect(
            MessageID(ofEvent: Array(#"{"messageId":"\#(String(repeating: "g", count: 32))"}"#.utf8)) == nil)
    }
}
