import Glibc
import Listener
import Logging
import Ownership
import Synchronization

/// The limit of the process's descriptors.
enum Descriptors {
    /// Raises the soft limit to the hard limit, which a process may do for itself, and returns the limit. A
    /// shell mostly gives 1,024. The soft limit is there for `select`, which nothing in this process uses.
    static func raise() -> Int {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return 1024 }
        if limit.rlim_cur < limit.rlim_max {
            var raised = limit
            raised.rlim_cur = limit.rlim_max
            if setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &raised) == 0 { limit = raised }
        }
        return Int(clamping: limit.rlim_cur)
    }
}

/// The gates before a node's listeners.
struct Gates: Sendable {
    let plan: DescriptorPlan
    let limit: Int
    let clients: ListenerGate
    let operators: ListenerGate
    let scrapers: ListenerGate
    let peers: ListenerGate

    init(_ configuration: NodeConfiguration, _ log: Logger) {
        limit = Descriptors.raise()
        plan = Gates.plan(configuration, limit: limit)
        let told = ToldNotices()
        func gate(_ bounds: ConnectionGate.Bounds, _ whose: String) -> ListenerGate {
            ListenerGate(bounds) { told.tell($0, whose, log: log) }
        }
        clients = gate(
            plan.bounds(
                perAddress: configuration.connectionsPerAddressMax,
                perSecond: configuration.connectionsPerAddressSecond,
                exempt: configuration.clientLimits.proxies), "clients")
        operators = gate(.init(connectionsMax: plan.operators), "operators")
        scrapers = gate(.init(connectionsMax: plan.scrapers), "scrapers")
        // No bound for an address: a whole cluster may have one, and a peer that does not greet is closed.
        peers = gate(.init(connectionsMax: max(1, plan.peers)), "nodes")
    }

    var named: [(name: String, gate: ListenerGate)] {
        [("clients", clients), ("operators", operators), ("scrapers", scrapers), ("nodes", peers)]
    }

    static func plan(_ configuration: NodeConfiguration, limit: Int) -> DescriptorPlan {
        DescriptorPlan(
            limit: limit, loops: configuration.loopCount, isClustered: configuration.cluster != nil,
            asked: configuration.connectionsMax)
    }

    func tellCut(_ log: Logger) {
        guard plan.isCut else { return }
        log.warning(
            "the process has too few descriptors for the connections that were asked for",
            metadata: ["connections": "\(plan.clients)", "descriptors": "\(limit)"])
    }
}

/// Logs what happens at listeners, each kind of line once a minute.
private final class ToldNotices: Sendable {
    private let told = Mutex(LogLimit<String>())

    func tell(_ notice: ListenerNotice, _ whose: String, log: Logger) {
        let (line, detail): (Logger.Message, Logger.Metadata) =
            switch notice {
            case .full(let connections):
                (
                    "no connection is accepted until one closes: all places are taken",
                    ["connections": "\(connections)"]
                )
            case .outOfDescriptors(let reason):
                ("no connection can be accepted: the listener pauses", ["reason": "\(reason)"])
            case .tooManyOfAddress(let address):
                (
                    "connections of one address were refused: the address has too many",
                    ["address": "\(address)"]
                )
            case .tooFast(let address):
                (
                    "connections of one address were refused: the address makes them too fast",
                    ["address": "\(address)"]
                )
            case .proxyHeader(let address, let reason):
                (
                    "a header of the PROXY protocol ended its connection",
                    ["address": "\(address)", "reason": "\(reason)"]
                )
            }
        let key = "\(whose) \(line)"
        guard let withheld = told.withLock({ $0.pass(key, now: Clock.monotonic()) }) else { return }
        var metadata = detail
        metadata["of"] = "\(whose)"
        if withheld > 0 { metadata["withheld"] = "\(withheld)" }
        log.warning(line, metadata: metadata)
    }
}
