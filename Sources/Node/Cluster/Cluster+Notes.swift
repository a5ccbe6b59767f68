import Logging
import Membership
import Model
import NodeCore
import Ownership

// Log lines and counters about a node's part in the cluster, for operators. On the cluster's event loop.

extension Cluster {
    func tellOperators(_ note: ControlNote) {
        switch note {
        case .members(let names):
            log.info("the members changed", metadata: ["names": "\(names.joined(separator: ","))"])
        case .stranger(let name, let reason):
            log.error(
                "a node is not understood, and is no member: upgrade from one version to the next in steps",
                metadata: ["node": "\(name)", "reason": "\(reason)"])
        case .status(let status):
            // A database that answers now and then changes the status each second.
            if changesTold.pass("status \(status.sentence)", now: Clock.monotonic()) != nil {
                log.info("the node's status changed", metadata: ["status": "\(status.sentence)"])
            }
        case .fenced(let session):
            log.warning(
                "a session was fenced: its lease stood still", metadata: ["session": "\(session.rawValue)"])
        case .notFenced(let session, let reason):
            if changesTold.pass("not fenced \(session.rawValue)", now: Clock.monotonic()) != nil {
                log.warning(
                    "a session could not be fenced: this node tries again",
                    metadata: ["session": "\(session.rawValue)", "error": "\(reason)"])
            }
        case .notTaken(let id, let reason):
            log.warning(
                "this node could not take a partition",
                metadata: ["partition": "\(id.rawValue)", "error": "\(reason)"])
        case .ready: log.notice("the node is ready")
        case .notReady(let reason):
            log.warning("the node is not ready", metadata: ["reason": "\(reason)"])
        case .databaseAway(let number, let reason, let time):
            let line = number == 0 ? Cluster.homeAway : "a database is away: the partitions in it wait"
            log.error("\(line)", metadata: Cluster.metadata(number, time, reason: reason))
        case .databaseBack(let number, let time):
            log.notice("a database is back", metadata: Cluster.metadata(number, time))
        case .clockCompared(let ahead):
            shared.counters.clockAhead.store(ahead, ordering: .relaxed)
        case .clockDiffers(let ahead):
            log.error(
                "this machine's clock and the database's differ: let both follow the same time (NTP)",
                metadata: ["millisecondsAhead": "\(ahead)"])
        case .databaseClockDiffers(let ahead):
            log.error("\(ClockReading.databasesWord(ahead: ahead))")
        case .clockAgrees: log.notice("this machine's clock and the database's agree again")
        case .linkDown(let name, let address, let reason, let isLeaving):
            log.log(
                level: isLeaving ? .debug : .warning, "a node cannot be reached over TCP",
                metadata: ["node": "\(name)", "address": "\(address)", "reason": "\(reason)"])
        case .linkCutOff(let name, let reason):
            shared.counters.peersCutOff.add(1, ordering: .relaxed)
            if changesTold.pass("cut off \(name)", now: Clock.monotonic()) != nil {
                log.warning(
                    "a connection to a node is closed: this node asks again for what waited on it",
                    metadata: ["node": "\(name)", "reason": "\(reason)"])
            }
        case .linkUp(let name, let down):
            log.notice(
                "a node can be reached over TCP again",
                metadata: ["node": "\(name)", "seconds": "\(down.seconds)"])
        case .member, .isolated, .malformedGossip, .refusedGossip, .silentSeed: tellOfGossip(note)
        }
    }

    private static let homeAway = "the database is away: this node is not ready until the database answers"

    private static func metadata(
        _ database: Int, _ time: TimeSpan, reason: String? = nil
    ) -> Logger.Metadata {
        var metadata: Logger.Metadata = ["database": "\(database + 1)", "seconds": "\(time.seconds)"]
        if let reason { metadata["reason"] = "\(reason)" }
        return metadata
    }

    private func tellOfGossip(_ note: ControlNote) {
        switch note {
        case .member(let member): tell(member)
        case .isolated(let isAlone):
            let line = isAlone ? "this node hears no other node" : "this node hears other nodes again"
            if changesTold.pass(line, now: Clock.monotonic()) != nil { log.warning("\(line)") }
        case .malformedGossip(let reason):
            shared.counters.gossipRefused.add(1, ordering: .relaxed)
            log.warning("gossip could not be read", metadata: ["reason": "\(reason)"])
        case .refusedGossip(let reason):
            shared.counters.gossipRepeated.add(1, ordering: .relaxed)
            // Networks double datagrams, and a process that starts again receives datagrams for its previous
            // session.
            guard isNew(reason) else { break }
            log.notice("gossip was refused", metadata: ["reason": "\(reason)"])
        case .silentSeed(let address):
            log.warning(
                "no node of this cluster answers at a --join address: check the address, and that UDP passes",
                metadata: ["address": "\(address)"])
        default: break
        }
    }

    private func tell(_ member: Membership.Member) {
        let key = "\(member.state) \(member.name)"
        guard let withheld = changesTold.pass(key, now: Clock.monotonic()) else { return }
        var metadata: Logger.Metadata = [
            "node": "\(member.name)", "session": "\(member.session.rawValue)",
            "incarnation": "\(member.incarnation)",
        ]
        if withheld > 0 { metadata["withheld"] = "\(withheld)" }
        log.info(member.state == .left ? "a node has left" : "a node is \(member.state)", metadata: metadata)
    }

    /// Counts a datagram that is not of this cluster, and logs each reason once a minute.
    func refused(_ reason: String, _ from: String) {
        shared.counters.gossipRefused.add(1, ordering: .relaxed)
        guard isNew(reason) else { return }
        log.warning("gossip was refused", metadata: ["reason": "\(reason)", "from": "\(from)"])
    }

    /// Whether the log has not had the reason within the last minute.
    private func isNew(_ reason: String) -> Bool {
        refusalsTold.pass(reason, now: Clock.monotonic()) != nil
    }
}
