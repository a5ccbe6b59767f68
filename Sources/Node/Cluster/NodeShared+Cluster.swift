import Credentials
import FCMAPI
import Glibc
import HTTPMessages
import Model
import NodeCore
import Ownership
import Synchronization

// Answers what operators ask about a cluster.

extension NodeShared {
    private static let isEnding = Atomic<Bool>(false)

    /// Ends the node as SIGTERM does; once, however often this is called.
    static func endInOrder() {
        if !isEnding.exchange(true, ordering: .relaxed) { kill(getpid(), SIGTERM) }
    }

    /// The cluster as this node sees it: its members, and each partition's owner and epoch.
    func clusterAnswer() -> HTTPResponse {
        guard let cluster else { return APIFailure.refused(NodeShared.notClustered) }
        let view = cluster.current
        var names: [SessionID: String] = [:]
        var owned: [SessionID: UInt64] = [:]
        for member in view.members { names[member.session] = member.name }
        for case let route? in view.routes { owned[route.session, default: 0] += 1 }
        let members = view.members.map { member -> APIAnswer.Value in
            let roles = (member.info.isGateway ? ["gateway"] : []) + (member.info.isShard ? ["shard"] : [])
            return .object([
                ("node", .text(member.name)), ("session", .number(member.session.rawValue)),
                ("state", .text(NodeShared.state(of: member, in: view))),
                ("roles", .text(roles.joined(separator: ","))),
                ("weight", .number(UInt64(member.info.weight))),
                ("zone", .text(member.info.zone)), ("peer", .text(member.info.peer)),
                ("version", .text(member.info.build)),
                ("certificate", .text(member.info.certificate?.text ?? "")),
                ("partitions", .number(owned[member.session] ?? 0)),
            ])
        }
        let partitions = view.routes.enumerated().map { index, route -> APIAnswer.Value in
            .object([
                ("partition", .number(UInt64(index))),
                ("owner", .text(route.flatMap { names[$0.session] } ?? "")),
                ("epoch", .number(route?.epoch.rawValue ?? 0)),
            ])
        }
        return APIAnswer.object([
            ("node", .text(cluster.name)), ("status", .text(notReady ?? "ready")),
            ("members", .list(members)), ("gone", .list(NodeShared.gone(from: view))),
            ("unowned", .number(UInt64(view.routes.count { $0 == nil }))), ("partitions", .list(partitions)),
            ("cordoned", .list(administrator.current.cordoned.sorted().map { .text($0) })),
            (
                "refusedCertificates",
                .list(administrator.current.refusedCertificates.sorted().map { .text($0.text) })
            ),
            ("damagedSettings", .list(administrator.current.damaged.map { .text($0.text) })),
            ("databasesAway", .list(view.awaySince.keys.sorted().map { .number(UInt64($0 + 1)) })),
            (
                "quarantined",
                .list(
                    quarantined.map {
                        .object([
                            ("partition", .number(UInt64($0.partition.rawValue))),
                            ("reason", .text($0.reason)),
                        ])
                    })
            ),
            ("refused", .list(refusalsAnswer())), ("stalled", NodeShared.stalled(in: view, names)),
            ("linksDown", .list(NodeShared.linksDown(from: view, asked: cluster.name, names))),
        ])
    }

    /// Partitions whose records the engine refuses, and for how long.
    private func refusalsAnswer() -> [APIAnswer.Value] {
        let now = Clock.monotonic()
        return refusals.lasting(now: now).map { one in
            .object([
                ("partition", .number(UInt64(one.partition.rawValue))), ("reason", .text(one.reason)),
                ("seconds", .number(now.since(one.since).seconds)),
            ])
        }
    }

    /// Stalled outboxes and conditions, of each node as the node wrote with its lease.
    private static func stalled(in view: ClusterView, _ names: [SessionID: String]) -> APIAnswer.Value {
        func pairs(_ stalled: Ownership.NodeInfo.Stalled) -> APIAnswer.Value {
            .list(
                stalled.first.map { pair in
                    let number = Int(pair.to.rawValue)
                    let route = number < view.routes.count ? view.routes[number] : nil
                    return .object([
                        ("partition", .number(UInt64(pair.from.rawValue))),
                        ("to", .number(UInt64(pair.to.rawValue))),
                        ("owner", .text(route.flatMap { names[$0.session] } ?? "")),
                    ])
                })
        }
        return .list(
            view.members.filter { $0.info.stalled.count + $0.info.stalledConditions.count > 0 }.map {
                let (outboxes, conditions) = ($0.info.stalled, $0.info.stalledConditions)
                return .object([
                    ("node", .text($0.name)), ("count", .number(UInt64(outboxes.count))),
                    ("outboxes", pairs(outboxes)), ("conditionCount", .number(UInt64(conditions.count))),
                    ("conditions", pairs(conditions)),
                ])
            })
    }

    private static func state(of member: Ownership.Member, in view: ClusterView) -> String {
        if member.info.isLeaving { return "leaving" }
        if member.info.isCutOff { return "cut off" }
        return "\(view.state(of: member.session))"
    }

    /// Connections that this node cannot make, or that broke and are not open again yet.
    private static func linksDown(
        from view: ClusterView, asked node: String, _ names: [SessionID: String]
    ) -> [APIAnswer.Value] {
        let now = Clock.monotonic()
        return view.linksDown.map { link in
            .object([
                ("node", .text(node)), ("peer", .text(names[link.peer] ?? "\(link.peer.rawValue)")),
                ("reason", .text(link.reason)), ("seconds", .number(now.since(link.since).seconds)),
            ])
        }
    }

    /// Names of nodes that were members within a day and are not members now.
    private static func gone(from view: ClusterView) -> [APIAnswer.Value] {
        let present = Set(view.members.map(\.name))
        let names = view.gossip.filter { $0.state == .left || $0.state == .dead }.map(\.name)
        return Set(names).subtracting(present).sorted().map { .text($0) }
    }

    static let notClustered = ChangeRefusal(.precondition, "This node is not part of a cluster.")

    /// The names of the members, and of nodes that were members within a day.
    var nodeNames: Set<String> {
        guard let view = cluster?.current else { return [] }
        return Set(view.members.map(\.name)).union(view.gossip.map(\.name))
    }
}
