/// A device's token of the operator's own Firebase project, as a transport stores it.
public struct FCMAddress: Hashable, Sendable {
    /// Today's tokens have 140 to 250 characters.
    public static let tokenBytesMax = 1024
    private static let format: UInt8 = 1

    public var token: String
    public init(token: String) { self.token = token }

    /// Whether the text may be a token: printable ASCII without quotation marks and backslashes, at most
    /// `tokenBytesMax` bytes.
    public static func isToken(_ text: some Collection<UInt8>) -> Bool {
        (1...tokenBytesMax).contains(text.count)
            && text.allSatisfy {
                $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\")
            }
    }

    /// The format's number, then the token.
    public var packed: [UInt8] { [FCMAddress.format] + token.utf8 }

    /// `nil` if the bytes are no packed address, or an address in another format.
    public init?(packed bytes: [UInt8]) {
        guard bytes.first == FCMAddress.format, FCMAddress.isToken(bytes.dropFirst()) else { return nil }
        token = String(decoding: bytes.dropFirst(), as: UTF8.self)
    }
}
