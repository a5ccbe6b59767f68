import COpenSSL

/// A key pair on the curve P-256 (FIPS 186-5), for signatures ES256 (RFC 7518 §3.4) and for the key agreement
/// of Web Push (RFC 8291 §3.1).
///
/// `@unchecked Sendable` is safe: nothing changes the `EVP_PKEY` after `init`, and libcrypto lets several
/// threads read one key.
public final class P256Key: @unchecked Sendable {
    public static let privateCount = 32
    public static let publicCount = 65
    public static let signatureCount = 64

    /// 65 bytes: 4, X, Y (SEC 1 §2.3.3).
    public let publicBytes: [UInt8]
    let pair: OpaquePointer

    /// Creates a key with libcrypto's randomness.
    public static func generate() throws(PushCryptoError) -> P256Key {
        guard let pair = tidecast_P256_generate() else { throw .library("make a key on P-256") }
        return try P256Key(owned: pair)
    }

    /// Takes the 32 bytes of a private key, the highest first. The number must be from 1 to one less than the
    /// order of the curve.
    public init(privateBytes: [UInt8]) throws(PushCryptoError) {
        guard privateBytes.count == P256Key.privateCount else {
            throw .privateKey("\(privateBytes.count) bytes, 32 are wanted")
        }
        guard let group = EC_GROUP_new_by_curve_name(NID_X9_62_prime256v1),
            let scalar = BN_secure_new(), let point = EC_POINT_new(group)
        else { throw .library("compute on P-256") }
        defer {
            EC_POINT_free(point)
            BN_clear_free(scalar)
            EC_GROUP_free(group)
        }
        BN_bin2bn(privateBytes, Int32(privateBytes.count), scalar)
        BN_set_flags(scalar, BN_FLG_CONSTTIME)
        guard BN_is_zero(scalar) == 0, BN_cmp(scalar, EC_GROUP_get0_order(group)) < 0 else {
            throw .privateKey("the number is 0 or not below the order of P-256")
        }
        var bytes = [UInt8](repeating: 0, count: P256Key.publicCount)
        guard EC_POINT_mul(group, point, scalar, nil, nil, nil) == 1,
            EC_POINT_point2oct(group, point, POINT_CONVERSION_UNCOMPRESSED, &bytes, bytes.count, nil)
                == P256Key.publicCount
        else { throw .library("compute the public key") }
        var native = [UInt8](repeating: 0, count: P256Key.privateCount)
        defer { OPENSSL_cleanse(&native, native.count) }
        guard BN_bn2nativepad(scalar, &native, Int32(native.count)) == native.count,
            let pair = tidecast_P256_pair(native, bytes, bytes.count)
        else { throw .library("take the key") }
        self.pair = pair
        publicBytes = bytes
    }

    /// Becomes the owner of the pair, and frees the pair if it has no public key.
    private init(owned pair: OpaquePointer) throws(PushCryptoError) {
        var bytes = [UInt8](repeating: 0, count: P256Key.publicCount)
        var count = 0
        guard EVP_PKEY_get_octet_string_param(pair, "pub", &bytes, bytes.count, &count) == 1,
            count == P256Key.publicCount, bytes[0] == 4
        else {
            EVP_PKEY_free(pair)
            throw .library("tell the public key")
        }
        self.pair = pair
        publicBytes = bytes
    }

    deinit { EVP_PKEY_free(pair) }

    /// 32 bytes, the highest first. The caller must seal what it stores.
    public var privateBytes: [UInt8] {
        var scalar: OpaquePointer?
        var bytes = [UInt8](repeating: 0, count: P256Key.privateCount)
        let isThere = EVP_PKEY_get_bn_param(pair, "priv", &scalar) == 1
        precondition(isThere && BN_bn2binpad(scalar, &bytes, 32) == 32, "a key pair has 32 private bytes")
        BN_clear_free(scalar)
        return bytes
    }

    /// Whether `sign` makes one signature of one message, on all nodes.
    static let isDeterministic = OPENSSL_version_major() > 3 || OPENSSL_version_minor() >= 2

    /// Signs by ECDSA with SHA-256. Returns 64 bytes: r and s (RFC 7518 §3.4).
    ///
    /// With libcrypto 3.2 or newer the nonce follows from key and message (RFC 6979 §3.2), so that all nodes
    /// make the same signature. Debian 12 has libcrypto 3.0, which takes a random nonce: all signatures
    /// of one message differ there, and all are valid.
    public func sign(_ message: [UInt8]) throws(PushCryptoError) -> [UInt8] {
        guard let context = EVP_MD_CTX_new() else { throw .library("sign") }
        defer { EVP_MD_CTX_free(context) }
        // The longest DER form of a signature has 72 bytes.
        var der = [UInt8](repeating: 0, count: 80)
        var count = der.count
        guard tidecast_ES256_sign_init(context, pair) == 1,
            EVP_DigestSign(context, &der, &count, message, message.count) == 1
        else { throw .library("sign") }
        let parts = der.withUnsafeBufferPointer { bytes in
            var start = bytes.baseAddress
            return d2i_ECDSA_SIG(nil, &start, count)
        }
        guard let parts else { throw .library("read its own signature") }
        defer { ECDSA_SIG_free(parts) }
        var raw = [UInt8](repeating: 0, count: P256Key.signatureCount)
        let isWritten = raw.withUnsafeMutableBufferPointer { bytes in
            guard let start = bytes.baseAddress else { return false }
            return BN_bn2binpad(ECDSA_SIG_get0_r(parts), start, 32) == 32
                && BN_bn2binpad(ECDSA_SIG_get0_s(parts), start + 32, 32) == 32
        }
        guard isWritten else { throw .library("write the signature") }
        return raw
    }

    /// The X coordinate of this private key times the peer's point: 32 bytes (SEC 1 §3.3.1).
    ///
    /// The point is on the curve, and P-256 has the cofactor 1, so that each such point is in the group:
    /// libcrypto's longer check would only multiply once more.
    func agree(with point: P256Point) throws(PushCryptoError) -> [UInt8] {
        guard let context = EVP_PKEY_CTX_new(pair, nil) else { throw .library("agree on a key") }
        defer { EVP_PKEY_CTX_free(context) }
        var shared = [UInt8](repeating: 0, count: 32)
        var count = shared.count
        guard EVP_PKEY_derive_init(context) == 1, EVP_PKEY_derive_set_peer_ex(context, point.key, 0) == 1,
            EVP_PKEY_derive(context, &shared, &count) == 1, count == 32
        else { throw .library("agree on a key") }
        return shared
    }
}
