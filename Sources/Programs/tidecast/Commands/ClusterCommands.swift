import ArgumentParser
import CommandOutput
import Foundation

struct Cluster: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Look at a cluster, and take nodes and certificates out of it.",
        subcommands: [
            Status.self, Watch.self, Check.self, Drain.self, Uncordon.self, Refuse.self, Accept.self,
        ])

    struct Status: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show the nodes, and which partitions each owns, as one node sees them.",
            discussion: "Ends with 1 where that node is not ready or partitions have no owner.")
        @OptionGroup(title: "Server Options") var connection: ServerOptions

        func run() throws {
            let answer = try connection.call(.GET, "/admin/cluster").object
            if connection.json { try Output.json(answer) } else { try Cluster.show(answer) }
            let isWell = answer["status"] as? String == "ready" && answer["unowned"] as? Int == 0
            if !isWell { throw ExitCode(1) }
        }
    }

    struct Watch: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Repeat `status` each second, until Ctrl-C.")
        @OptionGroup(title: "Server Options") var connection: ServerOptions

        func run() throws {
            while true {
                let answer = try connection.call(.GET, "/admin/cluster").object
                if connection.json {
                    try Output.json(answer)
                } else {
                    if isatty(STDOUT_FILENO) == 1 { try Output.bytes(Array("\u{1B}[2J\u{1B}[H".utf8)) }
                    try Output.line(Date().formatted(.iso8601))
                    try Cluster.show(answer)
                }
                sleep(1)
            }
        }
    }

    struct Check: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Look for outboxes and conditions that stand still, at all nodes."
                + " Ends with 1 if there are any, or if the node that is asked is not ready.")
        @OptionGroup(title: "Server Options") var connection: ServerOptions

        func run() throws {
            let answer = try connection.call(.GET, "/admin/cluster").object
            guard let stalled = answer["stalled"] as? [[String: Any]] else {
                throw ClientError("the server is of an earlier build, which does not look for such outboxes")
            }
            if connection.json {
                try Output.json(["stalled": stalled])
            } else if stalled.isEmpty {
                try Output.line("no outbox and no condition stands still")
            } else {
                try Cluster.showStalled(stalled)
            }
            let status = answer["status"] as? String ?? ""
            guard status == "ready" else {
                throw ClientError("the node that was asked \(Cluster.standing(status))")
            }
            if !stalled.isEmpty { throw ExitCode.failure }
        }
    }

    struct Drain: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Take a node out: it hands over its partitions, ends, and stays out until `uncordon`.")
        @OptionGroup(title: "Server Options") var connection: ServerOptions
        @Argument(help: "The node's name.") var node: String
        @Flag(help: "Drain the last shard or gateway too, after which the cluster serves nothing.")
        var force = false

        func run() throws {
            _ = try connection.call(
                .POST, "/admin/cluster/drain", body: ["node": node, "force": force ? "true" : "false"])
            guard try hasLeft() else {
                throw ClientError(
                    "\(node) has not left within 30 s. It is cordoned: once it has ended, it stays out until"
                        + " `tidecast cluster uncordon \(node)`")
            }
            if connection.json {
                try Output.json(["node": node, "state": "left"])
            } else {
                try Output.line("\(node) has left, and stays out until `tidecast cluster uncordon \(node)`")
            }
        }

        /// Waits for the node to leave, for 30 s at most.
        private func hasLeft() throws -> Bool {
            var asked = ""
            for _ in 0..<120 {
                // The node that answers may be the node that leaves, and then answers no more.
                guard let answer = try? connection.call(.GET, "/admin/cluster").object else {
                    if asked == node { return true }
                    usleep(250_000)
                    continue
                }
                asked = answer["node"] as? String ?? ""
                let members = answer["members"] as? [[String: Any]] ?? []
                guard let left = members.first(where: { $0["node"] as? String == node }) else { return true }
                if !connection.json {
                    try Output.line("\(node) still has \(left["partitions"] ?? 0) partitions")
                    fflush(nil)
                }
                usleep(250_000)
            }
            return false
        }
    }

    struct Uncordon: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Let a drained node join the cluster again.")
        @OptionGroup(title: "Server Options") var connection: ServerOptions
        @Argument(help: "The node's name.") var node: String

        func run() throws {
            _ = try connection.call(.POST, "/admin/cluster/uncordon", body: ["node": node])
            if connection.json {
                try Output.json(["node": node])
            } else {
                try Output.line("\(node) may come back")
            }
        }
    }

    /// The partitions that each zone owns, and that its loss would move; empty if no node names a zone.
    private static func zones(of members: [[String: Any]]) -> [String: Int] {
        var zones: [String: Int] = [:]
        for member in members where (member["roles"] as? String ?? "").contains("shard") {
            zones[member["zone"] as? String ?? "", default: 0] += member["partitions"] as? Int ?? 0
        }
        return zones.keys.allSatisfy(\.isEmpty) ? [:] : zones
    }

    fileprivate static func showStalled(_ stalled: [[String: Any]]) throws {
        for one in stalled {
            let node = one["node"] ?? ""
            func show(
                _ key: String, count: String, more name: String, line: ([String: Any]) -> String
            ) throws {
                let pairs = one[key] as? [[String: Any]] ?? []
                for pair in pairs { try Output.line(line(pair)) }
                let more = (one[count] as? Int ?? 0) - pairs.count
                if more > 0 { try Output.line("and \(more) more \(name) on \(node)") }
            }
            try show("outboxes", count: "count", more: "outboxes") {
                "stands still: the outbox of partition \($0["partition"] ?? ""), on \(node), for partition"
                    + " \($0["to"] ?? ""), on \($0["owner"] ?? "")"
            }
            try show("conditions", count: "conditionCount", more: "pairs with conditions") {
                "stands still: conditions of partition \($0["partition"] ?? ""), on \(node), which partition"
                    + " \($0["to"] ?? ""), on \($0["owner"] ?? ""), does not answer"
            }
        }
    }

    fileprivate static func show(_ answer: [String: Any]) throws {
        let members = answer["members"] as? [[String: Any]] ?? []
        let zones = Cluster.zones(of: members)
        let columns =
            ["node", "state", "roles"] + (zones.isEmpty ? [] : ["zone"])
            + ["partitions", "weight", "session", "peer", "version"]
        try Output.table(
            columns.map { $0.uppercased() },
            members.map { member in columns.map { "\(member[$0] ?? "")" } })
        if !zones.isEmpty {
            let shares = zones.sorted { $0.key < $1.key }.map { zone, share in
                "\(zone.isEmpty ? "none" : zone) \(share)"
            }
            try Output.line("partitions by zone: \(shares.joined(separator: ", "))")
        }
        let gone = answer["gone"] as? [String] ?? []
        if !gone.isEmpty { try Output.line("gone: \(gone.joined(separator: ", "))") }
        for one in answer["quarantined"] as? [[String: Any]] ?? [] {
            try Output.line("quarantined here: partition \(one["partition"] ?? ""): \(one["reason"] ?? "")")
        }
        for one in answer["refused"] as? [[String: Any]] ?? [] {
            try Output.line(
                "refused here: partition \(one["partition"] ?? ""), for \(one["seconds"] ?? 0) s: "
                    + "\(one["reason"] ?? "")")
        }
        try showStalled(answer["stalled"] as? [[String: Any]] ?? [])
        let cordoned = answer["cordoned"] as? [String] ?? []
        if !cordoned.isEmpty {
            try Output.line("kept out until `cluster uncordon`: \(cordoned.joined(separator: ", "))")
        }
        for certificate in answer["refusedCertificates"] as? [String] ?? [] {
            try Output.line("certificate refused until `cluster accept`: \(certificate)")
        }
        for row in answer["damagedSettings"] as? [String] ?? [] {
            try Output.line("damaged, and counts as none: \(row)")
        }
        let away = answer["databasesAway"] as? [Int] ?? []
        if !away.isEmpty { try Output.line("away: \(away.map { "database \($0)" }.joined(separator: ", "))") }
        for link in answer["linksDown"] as? [[String: Any]] ?? [] {
            try Output.line(
                "link down: \(link["node"] ?? "") to \(link["peer"] ?? ""), for \(link["seconds"] ?? 0) s: "
                    + "\(link["reason"] ?? "")")
        }
        let partitions = answer["partitions"] as? [[String: Any]] ?? []
        let unowned = answer["unowned"] as? Int ?? 0
        try Output.line(
            "\(partitions.count) partitions, \(unowned) without an owner; seen by \(answer["node"] ?? "")"
                + ", which \(standing(answer["status"] as? String ?? ""))")
    }

    /// A node that is not ready gives a reason, which is a sentence without its subject or a whole one.
    fileprivate static func standing(_ status: String) -> String {
        if status == "ready" { return "is ready" }
        return status.hasPrefix("cannot ") ? status : "is not ready: \(status)"
    }
}
