import Credentials
import Model

// Nodes that must stay out of the cluster, and certificates that its nodes refuse.

extension CatalogDraft {
    /// Bounds the table; an authority that many certificates were stolen of is to be replaced.
    package static let refusedCertificatesMax = 1000

    /// Keeps the node out. `shards` and `gateways`: those that would remain; `nil` if none has to. Two
    /// concurrent drains may each count on the other's node, so cordoned nodes do not count as remaining.
    package mutating func cordon(
        _ node: String, leaving shards: Set<String>?, and gateways: Set<String>?
    ) throws(ChangeRefusal) {
        if let shards, shards.isSubset(of: contents.cordoned) {
            throw ChangeRefusal(
                .precondition,
                "\(node) is the last shard: without it no partition has an owner, and no request is"
                    + " served. Start another shard first, or give --force.")
        }
        if let gateways, gateways.isSubset(of: contents.cordoned) {
            throw ChangeRefusal(
                .precondition,
                "\(node) is the last gateway: without it no client is served. Start another gateway first,"
                    + " or give --force.")
        }
        Catalog.cordon(node, to: &writes)
        contents.cordoned.insert(node)
    }

    /// Lets the node come back. `known`: the names of all nodes that the cluster remembers.
    package mutating func uncordon(_ node: String, known: Set<String>) throws(ChangeRefusal) {
        guard known.contains(node) || contents.cordoned.contains(node) else {
            let kept = contents.cordoned.sorted().joined(separator: ", ")
            throw ChangeRefusal(
                .unknown, "The cluster has no node \(node); kept out are: \(kept.isEmpty ? "none" : kept).")
        }
        Catalog.uncordon(node, from: &writes)
        contents.cordoned.remove(node)
    }

    package mutating func refuse(_ certificate: CertificateFingerprint) throws(ChangeRefusal) {
        let refused = contents.refusedCertificates
        guard refused.contains(certificate) || refused.count < Self.refusedCertificatesMax else {
            throw ChangeRefusal(
                .precondition,
                "The cluster refuses \(Self.refusedCertificatesMax) certificates already: accept those that"
                    + " have ended, or replace the authority.")
        }
        Catalog.refuse(certificate, to: &writes)
        contents.refusedCertificates.insert(certificate)
    }

    package mutating func accept(_ certificate: CertificateFingerprint) throws(ChangeRefusal) {
        guard contents.refusedCertificates.remove(certificate) != nil else {
            let refused = contents.refusedCertificates.sorted().map(\.text)
            throw ChangeRefusal(
                .unknown,
                "The cluster does not refuse the certificate \(certificate.text); refused are: "
                    + "\(refused.isEmpty ? "none" : refused.joined(separator: ", ")).")
        }
        Catalog.accept(certificate, from: &writes)
    }
}
