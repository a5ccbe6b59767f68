import Catalog
import FCMAPI
import Model

// Certificates of nodes that an operator refuses or accepts.

extension Administrator {
    /// Bounds the table; an authority that many certificates were stolen of is to be replaced.
    private static let refusedMax = 1000

    func refuse(
        _ certificate: CertificateFingerprint, force: Bool, on loop: NodeLoop, for work: Work?,
        _ finish: @escaping Finish
    ) {
        let nodes: [String]
        switch loop.shared.nodes(showing: certificate, force: force) {
        case .success(let found): nodes = found
        case .failure(let refusal): return finish(loop, .failure(refusal))
        }
        change(
            on: loop, for: work,
            { draft in
                let refused = draft.contents.refusedCertificates
                guard refused.contains(certificate) || refused.count < Self.refusedMax else {
                    return APIFailure.precondition(
                        "The cluster refuses \(Self.refusedMax) certificates already: accept those that have"
                            + " ended, or replace the authority.")
                }
                Catalog.refuse(certificate, to: &draft.writes)
                draft.contents.refusedCertificates.insert(certificate)
                return APIAnswer.object([
                    ("certificate", .text(certificate.text)), ("nodes", .list(nodes.map { .text($0) })),
                ])
            }, finish)
    }

    func accept(
        _ certificate: CertificateFingerprint, on loop: NodeLoop, for work: Work?, _ finish: @escaping Finish
    ) {
        guard loop.shared.isClustered else { return finish(loop, .success(NodeShared.notClustered)) }
        change(
            on: loop, for: work,
            { draft in
                guard draft.contents.refusedCertificates.remove(certificate) != nil else {
                    let refused = draft.contents.refusedCertificates.sorted().map(\.text)
                    return APIFailure.notFound(
                        "The cluster does not refuse the certificate \(certificate.text); refused are: "
                            + "\(refused.isEmpty ? "none" : refused.joined(separator: ", ")).")
                }
                Catalog.accept(certificate, from: &draft.writes)
                return APIAnswer.object([("certificate", .text(certificate.text))])
            }, finish)
    }
}

extension NodeShared {
    /// The nodes that show the certificate now and would lose their connections. Refuses a certificate of the
    /// node that answers, and without `force` that of every other member.
    fileprivate func nodes(
        showing certificate: CertificateFingerprint, force: Bool
    ) -> Result<[String], DrainRefusal> {
        func refuse(_ reason: String) -> Result<[String], DrainRefusal> {
            .failure(DrainRefusal(response: APIFailure.precondition(reason)))
        }
        guard let cluster else { return .failure(DrainRefusal(response: NodeShared.notClustered)) }
        let own = cluster.ownCertificates
        guard !own.isEmpty else {
            return refuse("The nodes of this cluster show no certificates: there are none to refuse.")
        }
        guard !own.contains(certificate) else {
            return refuse(
                "\(cluster.name), the node that was asked, shows this certificate itself: all other nodes"
                    + " would refuse it. Give it another certificate first (`tidecast cert sign`), or ask"
                    + " another node.")
        }
        let members = cluster.current.members
        let nodes = members.filter { $0.info.certificate == certificate }.map(\.name).sorted()
        let silent = members.filter { $0.info.certificate == nil && $0.name != cluster.name }
            .map(\.name).sorted()
        guard silent.isEmpty || force else {
            return refuse(
                "\(silent.joined(separator: ", ")) does not say which certificate it shows, as a former build"
                    + " does not, and would go on under a refused one. Upgrade it first, or give --force.")
        }
        guard nodes.isEmpty || force else {
            let names = nodes.joined(separator: ", ")
            return refuse(
                "\(names) shows this certificate now, and would lose its connections and its partitions."
                    + " Give it another certificate first (`tidecast cert sign`), or give --force.")
        }
        return .success(nodes)
    }
}
