import Logging
import Model
import Ownership
import Partitions
import PushDesk
import PushMessages
import PushScheduling
import Synchronization

/// What operators learn of push services: lines in the log, and counters.
final class PushNotices: Sendable {
    private struct Missing: Hashable {
        var project: ProjectNumber
        var kind: Transport.Kind
    }
    /// Rate limit for the warning about missing settings.
    private static let missingEvery: TimeSpan = .seconds(3600)
    private static let missingMax = 4096

    private let log: Logger
    private let counters: PushCounters
    private let told = Mutex(LogLimit<String>())
    private let hosts = Mutex(NameLimit<String>())
    private let missing = Mutex<[Missing: MonotonicTime]>([:])

    init(_ log: Logger, _ counters: PushCounters) {
        self.log = log
        self.counters = counters
    }

    /// Each outcome is reported here once, so that each refused key raises one alarm, whichever the service.
    ///
    /// - Parameter isFormer: whether the message left under settings that have changed since: an operator has
    ///   nothing to do about their key.
    func tell(_ outcome: PushOutcome, _ ticket: PushTicket, isFormer: Bool = false) {
        if isFormer, outcome.alarm != nil { return }
        if let alarm = outcome.alarm { counters.note(alarm, of: ticket.kind) }
        switch outcome {
        case .unset(let reason): noSettings(ticket.project, for: ticket.kind, because: reason)
        case .credentials(let reason):
            warn("a push service refuses the project's key", of: ticket, because: reason)
        case .platformKey(let reason):
            warn("a push service lacks a key for a device's platform", of: ticket, because: reason)
        case .refusedContent(let reason):
            warn("a push service refuses a message", of: ticket, because: reason)
        case .unexplained(let reason):
            warn("a push service's answer is not about the message, which waits", of: ticket, because: reason)
        case .unsent(let reason):
            warn("a message for a push service was not made", of: ticket, because: reason)
        case .overQuota:
            warn("a push service reports that the project's quota is used up", of: ticket, because: "quota")
        case .accepted, .gone, .throttled, .transient, .formerEnd, .expired: break
        }
    }

    /// `project`: the project whose request was not answered, if it is of one.
    func unreached(
        _ kind: Transport.Kind, at host: String, for project: ProjectNumber?, because reason: String
    ) {
        warn("a push service was not reached", of: kind, at: host, for: project, because: reason)
    }

    func alarm(_ alarm: PushAlarm, of ticket: PushTicket, because reason: String) {
        counters.note(alarm, of: ticket.kind)
        let line: Logger.Message =
            switch alarm {
            case .wrongTarget:
                "a device's token is not of this app, environment or project: look at the settings"
            case .clock: "a push service finds a new token too old or too new: look at the clock"
            case .ownMistake: "a push service names a mistake of this server"
            case .credentials: "a push service refuses the project's key, and the message with it"
            case .doubted: "a push service says of many devices that they are gone"
            case .unexplained: "a push service's answer is not about the message"
            }
        warn(line, of: ticket, because: reason)
    }

    /// A service answers for many devices in a row that they are gone. The answers are not believed: messages
    /// are held, and the circuit opens.
    func doubted(_ origin: PushOrigin) {
        counters.note(.doubted, of: origin.kind)
        let name = String(decoding: origin.name, as: UTF8.self)
        warn(
            "a push service says of many devices that they are gone, and messages are held: look at the settings",
            of: origin.kind, at: name, for: origin.project, because: "project \(origin.project.rawValue)")
    }

    /// A project's devices have addresses at a service for which the project has no settings. Their messages
    /// wait, so one line an hour is enough. No alarm: devices may register before the operator gives a key,
    /// and an operator who has switched a service off knows.
    private func noSettings(_ project: ProjectNumber, for kind: Transport.Kind, because reason: String) {
        let (key, now) = (Missing(project: project, kind: kind), Clock.monotonic())
        let isNews = missing.withLock { missing in
            if let last = missing[key], now.since(last) < PushNotices.missingEvery { return false }
            if missing.count >= PushNotices.missingMax { missing.removeAll() }
            missing[key] = now
            return true
        }
        guard isNews else { return }
        log.notice(
            "messages wait for a push service that the project does not use",
            metadata: [
                "service": "\(kind.word)", "project": "\(project.rawValue)", "reason": "\(reason)",
            ])
    }

    private func warn(_ line: Logger.Message, of ticket: PushTicket, because reason: String) {
        warn(line, of: ticket.kind, at: ticket.host, for: ticket.project, because: reason)
    }

    /// A fan-out fails for many devices at once, and a client with an app's key can register endpoints at any
    /// number of names below a vendor's wildcard: of each project some lines a minute pass.
    private func warn(
        _ line: Logger.Message, of kind: Transport.Kind, at host: String, for project: ProjectNumber?,
        because reason: String
    ) {
        let key = "\(line) \(kind.word) \(project?.rawValue ?? 0)"
        let withheld = hosts.withLock { $0.pass(key, name: host, now: Clock.monotonic()) }
        guard let withheld else { return }
        var metadata: Logger.Metadata = [
            "service": "\(kind.word)", "host": "\(host)", "reason": "\(reason)",
            "withheld": "\(withheld.lines)",
        ]
        if withheld.names > 0 { metadata["otherHosts"] = "\(withheld.names)" }
        log.warning(line, metadata: metadata)
    }

    func error(_ line: Logger.Message, _ reason: String) {
        log.error(line, metadata: ["reason": "\(reason)"])
    }

    /// What happened to a pool's connections to Apple's service.
    func tell(_ news: APNsNews, of pool: APNsPool) {
        let host = "\(pool.host):\(pool.port)"
        switch news {
        case .connected: break
        case .unreachable(let reason): unreached(.apns, at: host, for: nil, because: reason)
        case .broke(let reason):
            note("a connection to Apple's push service broke", at: host, because: reason)
        case .goAway(let reason):
            note("Apple's push service ends a connection", at: host, because: reason ?? "no reason")
        }
    }

    private func note(_ line: Logger.Message, at host: String, because reason: String) {
        let withheld = told.withLock { $0.pass("\(line) \(host)", now: Clock.monotonic()) }
        guard let withheld else { return }
        log.notice(
            line, metadata: ["host": "\(host)", "reason": "\(reason)", "withheld": "\(withheld)"])
    }
}
