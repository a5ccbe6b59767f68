import FCMAPI
import Glibc
import HTTPMessages
import Model
import Ownership

// What operators ask of a cluster.

extension NodeShared {
    /// As on SIGTERM.
    static func endInOrder() { kill(getpid(), SIGTERM) }

    /// The cluster as this node sees it: members, and who owns what since which epoch.
    func clusterAnswer() -> HTTPResponse {
        guard let cluster else { return APIFailure.unavailable("this node is on its own, in no cluster") }
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
                ("partitions", .number(owned[member.session] ?? 0)),
            ])
        }
        let partitions = view.routes.enumerated().map { place, route -> APIAnswer.Value in
            .object([
                ("partition", .number(UInt64(place))),
                ("owner", .text(route.flatMap { names[$0.session] } ?? "")),
                ("epoch", .number(route?.epoch.rawValue ?? 0)),
            ])
        }
        return APIAnswer.object([
            ("node", .text(cluster.name)), ("status", .text(notReady ?? "ready")),
            ("members", .list(members)), ("gone", .list(NodeShared.gone(from: view))),
            ("unowned", .number(UInt64(view.routes.count { $0 == nil }))), ("partitions", .list(partitions)),
            ("databasesAway", .list(view.away.sorted().map { .number(UInt64($0 + 1)) })),
            ("linksDown", .list(NodeShared.linksDown(from: view, asked: cluster.name, names))),
        ])
    }

    private static func state(of member: Ownership.Member, in view: ClusterView) -> String {
        if member.info.isLeaving { return "leaving" }
        if member.info.isCutOff { return "cut off" }
        return "\(view.state(of: member.session))"
    }

    /// Connections that this node cannot make, or that broke and are not made again yet.
    private static func linksDown(
        from view: ClusterView, asked node: String, _ names: [SessionID: String]
    ) -> [APIAnswer.Value] {
        let now = Clock.monotonic()
        return view.linksDown.map { link in
            .object([
                ("node", .text(node)), ("peer", .text(names[link.peer] ?? "\(link.peer.rawValue)")),
                ("reason", .text(link.reason)), ("seconds", .number(now.since(link.since) / .seconds(1))),
            ])
        }
    }

    /// Names that were there within a day and are not now.
    private static func gone(from view: ClusterView) -> [APIAnswer.Value] {
        let present = Set(view.members.map(\.name))
        let names = view.gossip.filter { $0.state == .left || $0.state == .dead }.map(\.name)
        return Set(names).subtracting(present).sorted().map { .text($0) }
    }

    /// Tells a node to leave in order.
    func drain(_ node: String) -> HTTPResponse {
        guard let cluster else { return APIFailure.unavailable("this node is on its own, in no cluster") }
        guard let member = cluster.current.members.first(where: { $0.name == node }) else {
            return APIFailure.unavailable("the cluster has no node \(node) at the moment")
        }
        cluster.tellToLeave(member.session)
        return APIAnswer.object([("node", .text(node)), ("state", .text("leaving"))])
    }
}
