import Testing

@testable import Model

@Suite("A certificate's fingerprint") struct CertificateFingerprintTests {
    private static let digits = "00ff" + String(repeating: "ab", count: 30)
    private static let printed = "00:FF" + String(repeating: ":AB", count: 30)

    @Test(
        "is read with and without colons, in either case",
        arguments: [digits, digits.uppercased(), printed, printed.lowercased()])
    func read(text: String) throws {
        let found = try #require(CertificateFingerprint(text))
        #expect(found.bytes == [0, 255] + [UInt8](repeating: 0xAB, count: 30))
        #expect(found.text == Self.printed && found.digits == Self.digits)
    }

    private static let cut: [String] = [
        String(digits.dropLast()), String(digits.dropLast(2)), String(printed.dropLast(3)),
    ]
    private static let longer: [String] = [
        "\(digits)ab", "\(digits)a", " \(digits)", "\(digits)\n", "\(printed):", ":\(printed)",
        "sha256 Fingerprint=\(printed)",
    ]
    private static let between: [String] = [
        "0:0FF\(printed.dropFirst(5))", "00FF\(printed.dropFirst(5))", printed.replacing(":", with: "::"),
        printed.replacing(":", with: "-"), "\(digits.dropLast())g", "\u{FF10}\(digits.dropFirst())",
    ]

    @Test("is no other text", arguments: ["", ":", "ab"] + cut + longer + between)
    func wrong(text: String) { #expect(CertificateFingerprint(text) == nil) }
}
