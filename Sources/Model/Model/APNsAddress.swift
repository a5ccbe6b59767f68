/// A device's address at Apple's push service, as a transport stores it.
public struct APNsAddress: Hashable, Sendable {
    /// Apple gives no length for tokens; today's have 32 bytes, and some 80 to 100.
    public static let tokenBytesMax = 256
    /// The longest bundle id that App Store Connect takes is 155 characters.
    public static let bundleIDBytesMax = 155

    /// Whether the token is for the sandbox. A token is for one of Apple's two environments only.
    public var isSandbox: Bool
    public var bundleID: String
    public var token: [UInt8]

    public init(isSandbox: Bool, bundleID: String, token: [UInt8]) {
        self.isSandbox = isSandbox
        self.bundleID = bundleID
        self.token = token
    }

    /// Whether the text may be a bundle id: letters, digits, dots and hyphens, at most `bundleIDBytesMax`.
    public static func isBundleID(_ text: some Collection<UInt8>) -> Bool {
        (1...bundleIDBytesMax).contains(text.count)
            && text.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "-"):
                    true
                default: false
                }
            }
    }

    /// The bytes of a packed address that name the app and its environment; `nil` if the bytes are no
    /// packed address.
    public static func app(ofPacked bytes: [UInt8]) -> ArraySlice<UInt8>? {
        guard bytes.count > 2, bytes.count > 2 + Int(bytes[1]) else { return nil }
        return bytes[..<(2 + Int(bytes[1]))]
    }

    /// The same bytes for an app: one byte for the environment, one for the length of the bundle id, the
    /// bundle id.
    public static func app(isSandbox: Bool, bundleID: String) -> [UInt8] {
        let bundle = bundleID.utf8.prefix(APNsAddress.bundleIDBytesMax)
        return [isSandbox ? 1 : 0, UInt8(bundle.count)] + bundle
    }

    /// The app's bytes, then the token.
    public var packed: [UInt8] { APNsAddress.app(isSandbox: isSandbox, bundleID: bundleID) + token }

    /// `nil` if the bytes are no packed address.
    public init?(packed bytes: [UInt8]) {
        guard bytes.count > 2, bytes[0] <= 1, Int(bytes[1]) <= APNsAddress.bundleIDBytesMax,
            bytes.count > 2 + Int(bytes[1])
        else { return nil }
        let end = 2 + Int(bytes[1])
        guard bytes.count - end <= APNsAddress.tokenBytesMax else { return nil }
        isSandbox = bytes[0] == 1
        bundleID = String(decoding: bytes[2..<end], as: UTF8.self)
        token = Array(bytes[end...])
    }
}
