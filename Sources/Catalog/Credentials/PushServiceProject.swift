/// What the API knows of a project that is a push service for user agents.
public struct PushServiceProject: Sendable {
    public var isOn: Bool
    /// See `PushServiceSettings.origin`.
    public var origin: String

    public init(_ settings: PushServiceSettings) {
        isOn = settings.isOn
        origin = settings.origin
    }

    /// Why the text is no origin; `nil` if it is one. Browsers take no subscription at another scheme than
    /// `https`, but for this machine itself.
    public static func check(origin: String) -> String? {
        let wanted = "The origin must be https://HOST or https://HOST:PORT, without a path."
        guard origin.utf8.count <= PushServiceSettings.originBytesMax else {
            return "The origin is too long."
        }
        let isSecure = origin.hasPrefix("https://")
        guard isSecure || origin.hasPrefix("http://") else { return wanted }
        let authority = origin.dropFirst(isSecure ? 8 : 7)
        let port = authority.last == "]" ? nil : authority.lastIndex(of: ":")
        let host = authority[..<(port ?? authority.endIndex)]
        let isName = host.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
                UInt8(ascii: "."), UInt8(ascii: "-"):
                true
            default: false
            }
        }
        guard !host.isEmpty, isName || host == "[::1]" else { return wanted }
        if let port {
            let digits = authority[authority.index(after: port)...]
            guard let number = UInt16(digits), number > 0, String(number) == digits else { return wanted }
        }
        let isLocal = host == "localhost" || host == "127.0.0.1" || host == "[::1]"
        return isSecure || isLocal ? nil : "http:// is for localhost only: browsers want https://."
    }
}
