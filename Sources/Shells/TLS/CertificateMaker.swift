import COpenSSL
import Glibc

/// Keys and certificates (X.509) by libcrypto. The caller frees each key and certificate.
public enum CertificateMaker {
    /// A new key on the curve P-256.
    public static func key() -> OpaquePointer? {
        guard let context = EVP_PKEY_CTX_new_id(EVP_PKEY_EC, nil) else { return nil }
        defer { EVP_PKEY_CTX_free(context) }
        var key: OpaquePointer?
        guard EVP_PKEY_keygen_init(context) == 1,
            EVP_PKEY_CTX_set_ec_paramgen_curve_nid(context, NID_X9_62_prime256v1) == 1,
            EVP_PKEY_keygen(context, &key) == 1
        else { return nil }
        return key
    }

    /// Whether a name of a certificate is an IPv4 or IPv6 address.
    public static func isAddress(_ name: String) -> Bool {
        var v4 = in_addr()
        var v6 = in6_addr()
        return inet_pton(AF_INET, name, &v4) == 1 || inet_pton(AF_INET6, name, &v6) == 1
    }

    /// A certificate for `key` that `signer` signs, with a serial number of 127 random bits. `issuer` is the
    /// signer's certificate; `nil` if the certificate signs itself. Extensions are as in `openssl.cnf`
    /// (x509v3_config(5)).
    public static func make(
        subject: String, key: OpaquePointer, issuer: OpaquePointer?, signer: OpaquePointer, days: Int,
        extensions: [(nid: Int32, value: String)]
    ) throws -> OpaquePointer {
        guard let certificate = X509_new() else {
            throw TLSError(description: "libcrypto made no certificate")
        }
        X509_set_version(certificate, 2)
        var serial = [UInt8](repeating: 0, count: 16)
        RAND_bytes(&serial, Int32(serial.count))
        serial[0] &= 0x7F
        let number = BN_bin2bn(serial, Int32(serial.count), nil)
        BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate))
        BN_free(number)
        X509_gmtime_adj(X509_getm_notBefore(certificate), -3600)
        X509_gmtime_adj(X509_getm_notAfter(certificate), days * 86_400)
        X509_set_pubkey(certificate, key)
        let name = X509_get_subject_name(certificate)
        let text = Array(subject.utf8)
        X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, text, Int32(text.count), -1, 0)
        X509_set_issuer_name(certificate, issuer.map { X509_get_subject_name($0) } ?? name)
        var context = X509V3_CTX()
        X509V3_set_ctx(&context, issuer ?? certificate, certificate, nil, nil, 0)
        for item in extensions {
            guard let built = X509V3_EXT_conf_nid(nil, &context, item.nid, item.value) else {
                X509_free(certificate)
                throw TLSError(description: "\(item.value) cannot be put into a certificate")
            }
            X509_add_ext(certificate, built, -1)
            X509_EXTENSION_free(built)
        }
        guard X509_sign(certificate, signer, EVP_sha256()) > 0 else {
            X509_free(certificate)
            throw TLSError(description: "libcrypto did not sign")
        }
        return certificate
    }

    /// The PEM text that `write` produces; `write` is a function such as `PEM_write_bio_X509`.
    public static func pem(_ write: (OpaquePointer) -> Int32) throws -> String {
        guard let bio = BIO_new(BIO_s_mem()) else { throw TLSError(description: "out of memory") }
        defer { BIO_free(bio) }
        guard write(bio) == 1 else { throw TLSError(description: "libcrypto wrote no PEM") }
        var text: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4096)
        while true {
            let count = BIO_read(bio, &buffer, Int32(buffer.count))
            guard count > 0 else { return String(decoding: text, as: UTF8.self) }
            text += buffer[..<Int(count)]
        }
    }
}
