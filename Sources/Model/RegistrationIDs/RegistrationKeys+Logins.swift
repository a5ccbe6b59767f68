import Model

/// What a phone gets by a check-in, before it has an installation: its own number and a number that proves
/// it. Both are from 1 to 2^63 - 1, because the SDK for iOS keeps them as signed integers and shows them as
/// `AidLogin ID:SECRET` in decimal digits.
///
/// The secret is 63 bits of an HMAC over the id, so that any node checks it without a record. A login alone
/// is worth nothing: it speaks for a device only together with a token that is bound to its id.
public struct DeviceLogin: Hashable, Sendable {
    public var id: UInt64
    public var secret: UInt64

    public init(id: UInt64, secret: UInt64) {
        self.id = id
        self.secret = secret
    }

    /// Reads `ID:SECRET`; `nil` if either is no number of that range in its shortest form.
    public init?(_ text: some Collection<UInt8>) {
        let parts = text.split(separator: UInt8(ascii: ":"), maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count == 2, let id = DeviceLogin.number(parts[0]),
            let secret = DeviceLogin.number(parts[1])
        else { return nil }
        self.init(id: id, secret: secret)
    }

    private static func number(_ digits: some Collection<UInt8>) -> UInt64? {
        guard (1...19).contains(digits.count), digits.first != UInt8(ascii: "0"),
            digits.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) })
        else { return nil }
        // 19 digits fit into 64 bits.
        let number = digits.reduce(UInt64(0)) { $0 * 10 + UInt64($1 - UInt8(ascii: "0")) }
        return number <= UInt64(Int64.max) ? number : nil
    }
}

/// Logins, and the tokens that are bound to one (rule: logins-are-bound).
///
/// A bound token is the device's token and 22 characters more: `0001` and 128 bits of an HMAC over the
/// login's id and the token. It names the same device as the token in it.
extension RegistrationKeys {
    public static let boundTokenLength = tokenLength + proofLength
    private static let proofLength = 22
    static let boundHead: UInt8 = 0b0001

    /// The key of all that has to do with logins. The AES keys of the same material stay keys of AES.
    static func loginKey(_ material: [UInt8]) -> [UInt8] {
        HMACSHA256.of(material, Array("tidecast logins 1".utf8))
    }

    /// A new phone's login. `seed`: 128 bits that no other call gets; the id reveals nothing of them.
    public func newLogin(seed: MessageID) -> DeviceLogin {
        let message = bytes(seed.time) + bytes(seed.random)
        return login(id: number(HMACSHA256.of(newest.logins, Array("id".utf8) + message)), newest)
    }

    /// Whether the secret proves the id under any key that is not retired.
    public func isGenuine(_ shown: DeviceLogin) -> Bool {
        keys.contains { !$0.key.isRetired && login(id: shown.id, $0).secret == shown.secret }
    }

    private func login(id: UInt64, _ key: Key) -> DeviceLogin {
        let mac = HMACSHA256.of(key.logins, Array("secret".utf8) + bytes(id))
        return DeviceLogin(id: id, secret: number(mac))
    }

    /// The token, bound to a login. `nil` if the text is no token without a binding, or its key is
    /// unknown.
    public func bind(_ token: [UInt8], to login: DeviceLogin) -> [UInt8]? {
        guard token.count == RegistrationKeys.tokenLength, let binding = binding(token, to: login) else {
            return nil
        }
        var out = token
        RegistrationKeys.append132(
            RegistrationKeys.boundHead, binding.high, low: binding.low, to: &out)
        return out
    }

    /// Whether the text is a token that this cluster has bound to the login's id.
    public func isBound(_ text: [UInt8], to login: DeviceLogin) -> Bool {
        guard text.count == RegistrationKeys.boundTokenLength,
            let binding = binding(Array(text.prefix(RegistrationKeys.tokenLength)), to: login)
        else { return false }
        return text.withUnsafeBufferPointer { text in
            RegistrationKeys.read132(text, from: RegistrationKeys.tokenLength).map {
                $0.head == RegistrationKeys.boundHead
                    && binding.matches(DeviceMAC(high: $0.high, low: $0.low))
            } ?? false
        }
    }

    /// Made under the key of the token's FID, so that a binding ends with that key.
    private func binding(_ token: [UInt8], to login: DeviceLogin) -> DeviceMAC? {
        guard case .success(let device) = decipher(token),
            let key = keys.first(where: { $0.key.number == device.key })
        else { return nil }
        let mac = HMACSHA256.of(key.logins, Array("token".utf8) + bytes(login.id) + token)
        return DeviceMAC(high: word(mac[..<8]), low: word(mac[8..<16]))
    }

    /// A number from 1 to 2^63 - 1.
    private func number(_ mac: [UInt8]) -> UInt64 { max(1, word(mac[..<8]) >> 1) }

    private func word(_ bytes: ArraySlice<UInt8>) -> UInt64 { bytes.reduce(0) { $0 << 8 | UInt64($1) } }

    private func bytes(_ word: UInt64) -> [UInt8] { withUnsafeBytes(of: word.bigEndian) { Array($0) } }
}
