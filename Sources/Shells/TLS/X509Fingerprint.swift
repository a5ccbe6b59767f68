import COpenSSL

/// The SHA-256 of a certificate's DER form.
enum X509Fingerprint {
    /// Empty if libcrypto fails.
    static func of(_ certificate: OpaquePointer) -> [UInt8] {
        var out = [UInt8](repeating: 0, count: Int(EVP_MAX_MD_SIZE))
        var count: UInt32 = 0
        guard X509_digest(certificate, EVP_sha256(), &out, &count) == 1 else { return [] }
        return Array(out.prefix(Int(count)))
    }

    /// Of each form of the certificate that verifies under the issuer's key, the given form first.
    ///
    /// An ECDSA signature (r, s) has a twin (r, n - s), n being the order of the curve, that everybody can
    /// compute and that verifies as well. A list of refused fingerprints must hold for both.
    static func forms(of certificate: OpaquePointer, issuer: OpaquePointer?) -> [[UInt8]] {
        let own = of(certificate)
        guard let issuer, let twin = twin(of: certificate, issuer: issuer) else { return [own] }
        defer { X509_free(twin) }
        return [own, of(twin)]
    }

    /// `nil` if the issuer's key is not of an elliptic curve. The caller frees the certificate.
    static func twin(of certificate: OpaquePointer, issuer: OpaquePointer) -> OpaquePointer? {
        defer { ERR_clear_error() }
        var order: OpaquePointer?
        guard let key = X509_get0_pubkey(issuer), EVP_PKEY_get_bn_param(key, "order", &order) == 1 else {
            return nil
        }
        defer { BN_free(order) }
        var shown: UnsafePointer<ASN1_BIT_STRING>?
        X509_get0_signature(&shown, nil, certificate)
        guard let shown else { return nil }
        var bytes = ASN1_STRING_get0_data(shown)
        guard let signature = d2i_ECDSA_SIG(nil, &bytes, Int(ASN1_STRING_length(shown))) else { return nil }
        defer { ECDSA_SIG_free(signature) }
        guard let r = BN_dup(ECDSA_SIG_get0_r(signature)), let s = BN_new() else { return nil }
        guard BN_sub(s, order, ECDSA_SIG_get0_s(signature)) == 1, ECDSA_SIG_set0(signature, r, s) == 1 else {
            BN_free(r)
            BN_free(s)
            return nil
        }
        var der: UnsafeMutablePointer<UInt8>?
        let count = i2d_ECDSA_SIG(signature, &der)
        guard count > 0, let twin = X509_dup(certificate) else { return nil }
        defer { tidecast_OPENSSL_free(der) }
        var place: UnsafePointer<ASN1_BIT_STRING>?
        X509_get0_signature(&place, nil, twin)
        // The copy is this function's own, so its signature may be changed.
        guard ASN1_STRING_set(UnsafeMutablePointer(mutating: place), der, count) == 1 else {
            X509_free(twin)
            return nil
        }
        return twin
    }
}
