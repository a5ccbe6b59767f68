import Catalog
import Credentials
import FCMAPI
import Model
import NodeCore
import Ownership

// Nodes that an operator takes out and lets back in, and certificates that an operator refuses or accepts.

extension Administrator {
    func cluster(
        _ request: AdminRequest, on loop: NodeLoop, for work: Work?, _ finish: @escaping Finish
    ) {
        let shared = loop.shared
        guard let cluster = shared.cluster else { return finish(loop, .failure(NodeShared.notClustered)) }
        do throws(ChangeRefusal) {
            switch request {
            case .drain(let node, let force):
                let (member, shards, gateways) = try shared.leaver(node, force: force)
                change(
                    on: loop, for: work, { try $0.cordon(node, leaving: shards, and: gateways) },
                    { loop, result in
                        // Cordoned first, so that no supervisor brings the node back.
                        if case .success = result { cluster.tell(.tellToLeave(member.session)) }
                        finish(
                            loop,
                            result.map {
                                APIAnswer.object([("node", .text(node)), ("state", .text("leaving"))])
                            })
                    })
            case .uncordon(let node):
                change(
                    on: loop, for: work,
                    { [known = shared.nodeNames] draft in
                        try draft.uncordon(node, known: known)
                        return APIAnswer.object([("node", .text(node))])
                    }, finish)
            case .refuse(let certificate, let force):
                let nodes = try shared.nodes(showing: certificate, of: cluster, force: force)
                change(
                    on: loop, for: work,
                    { draft in
                        try draft.refuse(certificate)
                        return APIAnswer.object([
                            ("certificate", .text(certificate.text)),
                            ("nodes", .list(nodes.map { .text($0) })),
                        ])
                    }, finish)
            case .accept(let certificate):
                change(
                    on: loop, for: work,
                    { draft in
                        try draft.accept(certificate)
                        return APIAnswer.object([("certificate", .text(certificate.text))])
                    }, finish)
            default: break
            }
        } catch {
            finish(loop, .failure(error))
        }
    }
}

extension NodeShared {
    /// The node that is to leave, and the shards and gateways that would remain; `nil` if none has to remain.
    fileprivate func leaver(
        _ node: String, force: Bool
    ) throws(ChangeRefusal) -> (member: Ownership.Member, shards: Set<String>?, gateways: Set<String>?) {
        let view = cluster?.current ?? ClusterView()
        guard let member = view.members.first(where: { $0.name == node }) else {
            let names = view.members.map(\.name).sorted().joined(separator: ", ")
            throw ChangeRefusal(.unknown, "The cluster has no node \(node): it has \(names).")
        }
        let others = view.members.filter {
            $0.name != node && !$0.info.isLeaving && view.state(of: $0.session) == .alive
        }
        func remaining(_ role: (Ownership.NodeInfo) -> Bool) -> Set<String>? {
            !force && role(member.info) ? Set(others.filter { role($0.info) }.map(\.name)) : nil
        }
        return (member, remaining(\.isShard), remaining(\.isGateway))
    }

    /// The nodes that show the certificate now and would lose their connections. Refuses a certificate of the
    /// node that answers, and without `force` that of every other member.
    fileprivate func nodes(
        showing certificate: CertificateFingerprint, of cluster: Cluster, force: Bool
    ) throws(ChangeRefusal) -> [String] {
        let own = cluster.ownCertificates
        guard !own.isEmpty else {
            throw ChangeRefusal(
                .precondition,
                "The nodes of this cluster show no certificates: there are none to refuse.")
        }
        guard !own.contains(certificate) else {
            throw ChangeRefusal(
                .precondition,
                "\(cluster.name), the node that was asked, shows this certificate itself: all other nodes"
                    + " would refuse it. Give it another certificate first (`tidecast cert sign`), or ask"
                    + " another node.")
        }
        let members = cluster.current.members
        let nodes = members.filter { $0.info.certificate == certificate }.map(\.name).sorted()
        let silent = members.filter { $0.info.certificate == nil && $0.name != cluster.name }
            .map(\.name).sorted()
        guard silent.isEmpty || force else {
            throw ChangeRefusal(
                .precondition,
                "\(silent.joined(separator: ", ")) does not say which certificate it shows, and might go on"
                    + " under a refused one. Give --force to go on.")
        }
        guard nodes.isEmpty || force else {
            throw ChangeRefusal(
                .precondition,
                "\(nodes.joined(separator: ", ")) shows this certificate now, and would lose its connections"
                    + " and its partitions. Give it another certificate first (`tidecast cert sign`), or give"
                    + " --force.")
        }
        return nodes
    }
}
