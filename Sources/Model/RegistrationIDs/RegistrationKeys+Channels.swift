import Model

/// The address for messages to one channel of a user agent, as the URL of a subscription names it.
public struct ChannelAddress: Hashable, Sendable {
    public static let senderKeyHashBytes = 32

    public var device: Registration
    public var channel: ChannelID
    /// The SHA-256 of the public key that may send (RFC 8292 §4); `nil` if anybody who knows the URL may.
    public var senderKeyHash: [UInt8]?

    public init(device: Registration, channel: ChannelID, senderKeyHash: [UInt8]? = nil) {
        precondition(
            senderKeyHash.map { $0.count == ChannelAddress.senderKeyHashBytes } ?? true,
            "a SHA-256 has 32 bytes")
        self.device = device
        self.channel = channel
        self.senderKeyHash = senderKeyHash
    }
}

/// Addresses of channels, sealed: the text is a capability, and no node keeps a record of it. The texts of
/// two channels do not show whether the channels are of one device. A changed character makes a text worth
/// nothing.
///
/// The text is base64url of the key's number, 12 bytes of nonce, and AES-256-GCM over device, channel and the
/// sender's key (NIST SP 800-38D). The nonce is an HMAC over the plaintext, so that two plaintexts never
/// share one, and no randomness is needed.
extension RegistrationKeys {
    /// The longest text of an address, in characters.
    public static let addressLengthMax = 124
    private static let nonceBytes = 12
    private static let plainBytes = 32

    struct ChannelKeys {
        /// 32 bytes each, derived from a key's material for this use alone.
        let cipher: [UInt8]
        let nonces: [UInt8]

        init(_ material: [UInt8]) {
            cipher = HMACSHA256.of(material, Array("tidecast channels 1".utf8))
            nonces = HMACSHA256.of(material, Array("tidecast channel nonces 1".utf8))
        }
    }

    /// The text of an address, under the key for new ids.
    public func seal(_ address: ChannelAddress) -> [UInt8] {
        let (high, low) = RegistrationKeys.words(of: address.device)
        var plain: [UInt8] = []
        for word in [high, low, address.channel.high, address.channel.low] {
            withUnsafeBytes(of: word.bigEndian) { plain.append(contentsOf: $0) }
        }
        plain += address.senderKeyHash ?? []
        let keys = newest.channels
        let nonce = Array(HMACSHA256.of(keys.nonces, plain).prefix(RegistrationKeys.nonceBytes))
        let head = newest.key.number
        guard let sealed = GCM.seal(plain, key: keys.cipher, nonce: nonce, with: [head]) else {
            fatalError("libcrypto has no AES-256-GCM")
        }
        return Base64URL.encode([head] + nonce + sealed)
    }

    public func openAddress(_ text: some Collection<UInt8>) -> Result<ChannelAddress, RegistrationError> {
        guard text.count <= RegistrationKeys.addressLengthMax, let bytes = Base64URL.decode(text) else {
            return .failure(.malformed)
        }
        let least = 1 + RegistrationKeys.nonceBytes + RegistrationKeys.plainBytes + GCM.tagBytes
        let extra = bytes.count - least
        guard extra == 0 || extra == ChannelAddress.senderKeyHashBytes else { return .failure(.malformed) }
        guard let key = keys.first(where: { $0.key.number == bytes[0] }) else {
            return .failure(.unknownKey)
        }
        let nonce = Array(bytes[1...RegistrationKeys.nonceBytes])
        let sealed = Array(bytes[(1 + RegistrationKeys.nonceBytes)...])
        guard let plain = GCM.open(sealed, key: key.channels.cipher, nonce: nonce, with: [bytes[0]]) else {
            return .failure(.malformed)
        }
        func word(at index: Int) -> UInt64 {
            plain[(index * 8)..<(index * 8 + 8)].reduce(0) { $0 << 8 | UInt64($1) }
        }
        guard
            let device = RegistrationKeys.registration(word(at: 0), word(at: 1), key: key.key, suffix: nil)
        else { return .failure(.malformed) }
        return device.map { device in
            ChannelAddress(
                device: device, channel: ChannelID(high: word(at: 2), low: word(at: 3)),
                senderKeyHash: extra > 0 ? Array(plain[RegistrationKeys.plainBytes...]) : nil)
        }
    }
}
