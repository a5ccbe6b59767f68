import Logging
import Membership
import Model
import NIOCore
import Ownership
import PeerLink

/// Carries out what membership decides: packets, timers, and word of it to the cluster.
///
/// Confined to the cluster's event loop.
final class Gossip {
    /// What is told by facts, in the highest byte of their keys.
    enum Topic: UInt32 {
        /// Who owns a partition, by its number: the epoch is the version, the session the value.
        case owner = 1
        /// The catalog's version.
        case catalog = 2

        func key(_ number: UInt32 = 0) -> UInt32 { rawValue << 24 | number }
    }

    private var machine: Membership
    private let socket: GossipSocket
    private let eventLoop: any EventLoop
    private let counters: NodeCounters
    private let log: Logger
    /// What the cluster hears of it.
    private let tell: (Membership.Effect) -> Void
    /// Of lines that say how a node seems to be: a few a minute for each node and state.
    private var changesTold = LogLimit<String>(linesMax: Gossip.linesMax)
    private static let linesMax = 3

    init(
        _ machine: Membership, socket: GossipSocket, eventLoop: any EventLoop, counters: NodeCounters,
        log: Logger, tell: @escaping (Membership.Effect) -> Void
    ) {
        self.machine = machine
        self.socket = socket
        self.eventLoop = eventLoop
        self.counters = counters
        self.log = log
        self.tell = tell
    }

    var members: [Membership.Member] { machine.members }
    var localHealth: Int { machine.localHealth }

    func handle(_ event: Membership.Event) {
        var effects: [Membership.Effect] = []
        machine.handle(event, now: Clock.monotonic(), into: &effects)
        for effect in effects { carryOut(effect) }
    }

    func tellOfSilentSeeds(_ seeds: [String]) {
        for seed in seeds where !machine.isReached(seed) {
            log.warning(
                "nobody of this cluster answers at a --join address: another cluster's, or closed for UDP?",
                metadata: ["address": "\(seed)"])
        }
    }

    func close() -> EventLoopFuture<Void> { socket.close() }

    private func carryOut(_ effect: Membership.Effect) {
        switch effect {
        case .datagram(let packet, let address):
            counters.gossipSent.add(1, ordering: .relaxed)
            socket.send(packet, to: address)
        case .wake(let at):
            let delay = at.since(Clock.monotonic())
            eventLoop.assumeIsolated().scheduleTask(in: .nanoseconds(Int64(clamping: delay))) {
                self.handle(.woke)
            }
        case .malformed(let why):
            counters.gossipRefused.add(1, ordering: .relaxed)
            log.warning("gossip that makes no sense", metadata: ["reason": "\(why)"])
        case .changed(let member):
            say(member)
            tell(effect)
        case .isolated(let isAlone):
            let line = isAlone ? "no other node is heard" : "others are heard again"
            if changesTold.pass(line, now: Clock.monotonic()) != nil { log.warning("\(line)") }
            tell(effect)
        case .stream, .learned: tell(effect)
        }
    }

    private func say(_ member: Membership.Member) {
        let key = "\(member.state) \(member.name)"
        guard let withheld = changesTold.pass(key, now: Clock.monotonic()) else { return }
        var metadata: Logger.Metadata = [
            "node": "\(member.name)", "session": "\(member.session.rawValue)",
            "incarnation": "\(member.incarnation)",
        ]
        if withheld > 0 { metadata["withheld"] = "\(withheld)" }
        log.info("a node is \(member.state)", metadata: metadata)
    }
}
