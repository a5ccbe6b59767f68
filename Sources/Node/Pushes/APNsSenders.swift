import APNsClient
import Credentials
import FCMAPI
import Model
import PushMessages
import PushScheduling
import Synchronization

/// The tokens of one of Apple's keys, for all threads of the node.
final class APNsTokenSource: Sendable {
    private let tokens: Mutex<APNsTokens>
    init(_ signer: APNsSigner) { tokens = Mutex(APNsTokens(signer)) }

    func authorization() throws -> String {
        let now = Clock.now().wall
        return try tokens.withLock { try $0.authorization(now: now) }
    }
    func withLock<Value: Sendable>(_ body: (inout APNsTokens) -> Value) -> Value {
        tokens.withLock { body(&$0) }
    }
}

/// Everything that the node needs to push to Apple for one app of a project.
struct APNsSender: Sendable {
    var pool: APNsPool
    var tokens: APNsTokenSource
}

/// The senders of all projects, for any thread.
///
/// A key has one source of tokens, whichever projects and apps use the key, because Apple counts how often a
/// key's token changes.
final class APNsSenders: Sendable {
    struct App: Hashable {
        var isSandbox: Bool
        var bundleID: String
    }
    private struct KeyName: Hashable {
        var teamID: String
        var keyID: String
        var privateBytes: [UInt8]
    }
    private struct State {
        var settings: [ProjectNumber: APNsSettings] = [:]
        var senders: [ProjectNumber: [App: APNsSender]] = [:]
        var sources: [KeyName: APNsTokenSource] = [:]
        var onRetired: (@Sendable ([APNsPool]) -> Void)?
    }
    private let state: Mutex<State>

    init(_ settings: [ProjectNumber: APNsSettings]) {
        state = Mutex(APNsSenders.next(settings, after: State()))
    }

    /// `nil` where the project has no key for the app, or Apple's push service is off.
    func sender(_ project: ProjectNumber, isSandbox: Bool, bundleID: String) -> APNsSender? {
        state.withLock { $0.senders[project]?[App(isSandbox: isSandbox, bundleID: bundleID)] }
    }

    /// The apps for which the project has a key, as packed addresses name them.
    func apps(of project: ProjectNumber) -> Set<[UInt8]> {
        state.withLock { state in
            Set(
                (state.senders[project] ?? [:]).keys.map {
                    APNsAddress.app(isSandbox: $0.isSandbox, bundleID: $0.bundleID)
                })
        }
    }

    func triesOtherEnvironment(_ project: ProjectNumber) -> Bool {
        state.withLock { $0.settings[project]?.triesOtherEnvironment ?? false }
    }

    /// `body` hears of pools that no project uses any more, or uses with another key.
    func tellRetired(_ body: @escaping @Sendable ([APNsPool]) -> Void) {
        state.withLock { $0.onRetired = body }
    }

    /// Returns the projects whose settings have changed.
    func update(_ settings: [ProjectNumber: APNsSettings]) -> Set<ProjectNumber> {
        let (changed, retired, tell) = state.withLock { state in
            let changed = Set(settings.keys).union(state.settings.keys).filter {
                settings[$0] != state.settings[$0]
            }
            guard !changed.isEmpty else { return (changed, [APNsPool](), state.onRetired) }
            let former = APNsSenders.pools(state)
            state = APNsSenders.next(settings, after: state)
            let next = APNsSenders.pools(state)
            let retired = former.filter { next[$0.key] != $0.value }.map(\.key)
            return (changed, retired, state.onRetired)
        }
        if !retired.isEmpty { tell?(retired) }
        return changed
    }

    private static func pools(_ state: State) -> [APNsPool: ObjectIdentifier] {
        var pools: [APNsPool: ObjectIdentifier] = [:]
        for senders in state.senders.values {
            for sender in senders.values { pools[sender.pool] = ObjectIdentifier(sender.tokens) }
        }
        return pools
    }

    private static func next(_ settings: [ProjectNumber: APNsSettings], after former: State) -> State {
        var next = State()
        next.settings = settings
        next.onRetired = former.onRetired
        for (project, settings) in settings where settings.isOn {
            for key in settings.keys {
                let name = KeyName(teamID: key.teamID, keyID: key.keyID, privateBytes: key.privateBytes)
                // A damaged key or host cannot send, and the project's other keys can.
                guard let host = APNsHost.of(key),
                    let source = next.sources[name] ?? former.sources[name] ?? source(key)
                else { continue }
                next.sources[name] = source
                let pool = APNsPool(
                    host: host.host, port: host.port,
                    caPEM: key.authority.map { String(decoding: $0, as: UTF8.self) }, teamID: key.teamID,
                    keyID: key.keyID, keyDigest: PushDigest.short(key.privateBytes, count: 43))
                next.senders[project, default: [:]][App(isSandbox: key.isSandbox, bundleID: key.bundleID)] =
                    APNsSender(pool: pool, tokens: source)
            }
        }
        return next
    }

    private static func source(_ key: APNsSettings.Key) -> APNsTokenSource? {
        guard let pair = try? P256Key(privateBytes: key.privateBytes) else { return nil }
        return APNsTokenSource(APNsSigner(key: pair, keyID: key.keyID, teamID: key.teamID))
    }
}
