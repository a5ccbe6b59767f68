import Journal
import Model

// Certificates of nodes that an operator has refused. As with a cordon, the key alone counts.

extension Catalog {
    private static let refusedPrefix = "refused-certificate:"

    /// All nodes refuse connections with the certificate, until `accept`.
    package static func refuse(_ certificate: CertificateFingerprint, to writes: inout CatalogWrites) {
        writes.put(.setting, key: refusedPrefix + certificate.digits, value: [1])
    }

    package static func accept(_ certificate: CertificateFingerprint, from writes: inout CatalogWrites) {
        writes.remove(.setting, key: refusedPrefix + certificate.digits)
    }

    /// `nil` if the key is of another setting. Throws `EngineError.corrupt` for a key that names no
    /// certificate.
    static func refusedCertificate(_ key: String) throws -> CertificateFingerprint? {
        guard key.hasPrefix(refusedPrefix) else { return nil }
        guard let certificate = CertificateFingerprint(String(key.dropFirst(refusedPrefix.count))) else {
            throw EngineError.corrupt(
                "the setting \(key) names no certificate: it is from a newer tidecast, or damaged")
        }
        return certificate
    }
}
