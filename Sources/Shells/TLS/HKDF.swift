import COpenSSL

/// Keys from a secret: HKDF with SHA-256 (RFC 5869).
public enum HKDF {
    /// `nil` if libcrypto fails.
    public static func derive(_ secret: [UInt8], salt: [UInt8], info: [UInt8], count: Int) -> [UInt8]? {
        guard let context = EVP_PKEY_CTX_new_id(EVP_PKEY_HKDF, nil) else { return nil }
        defer { EVP_PKEY_CTX_free(context) }
        var out = [UInt8](repeating: 0, count: count)
        var made = count
        guard EVP_PKEY_derive_init(context) == 1, EVP_PKEY_CTX_set_hkdf_md(context, EVP_sha256()) == 1,
            EVP_PKEY_CTX_set1_hkdf_salt(context, salt, Int32(salt.count)) == 1,
            EVP_PKEY_CTX_set1_hkdf_key(context, secret, Int32(secret.count)) == 1,
            EVP_PKEY_CTX_add1_hkdf_info(context, info, Int32(info.count)) == 1,
            EVP_PKEY_derive(context, &out, &made) == 1, made == count
        else { return nil }
        return out
    }
}
