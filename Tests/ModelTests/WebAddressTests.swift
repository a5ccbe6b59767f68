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
        for endpoint in ["https://push.example.com/a?b=c", longest] {
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
        #expect(WebAddress(packed: good + [0xFF]) == nil)
        #expect(WebAddress(packed: good + [UInt8](repeating: 65, count: 2048)) == nil)
        #expect(WebAddress.origin(ofPacked: Array(good[..<90])) == nil)
        #expect(WebAddress.origin(ofPacked: [2] + good.dropFirst()) == nil)
    }

    @Test(
        "has the origin of its endpoint",
        arguments: [
            ("https://a.example/b/c", "https://a.example"),
            ("https://a.example:8443/", "https://a.example:8443"),
            ("https://a.example?b=/c", "https://a.example"), ("https://a.example", "https://a.example"),
            ("https://[fd00:0:0:0:0:0:0:1]:8443/x", "https://[fd00:0:0:0:0:0:0:1]:8443"),
        ])
    func origin(endpoint: String, origin: String) throws {
        let one = address(endpoint)
        #expect(String(one.origin) == origin)
        let bytes = try #require(WebAddress.origin(ofPacked: one.packed))
        #expect(String(decoding: bytes, as: UTF8.self) == origin)
    }
}
