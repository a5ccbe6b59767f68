import Credentials
import Model
import PushMessages
import Synchronization

/// Everything that the node needs to relay for one project. Another setting makes another sender, with tokens
/// of its own.
final class RelaySender: Sendable {
    let project: ProjectNumber
    /// Where messages go, and for logs the service's origin.
    let url: String
    let origin: String
    let tokenURL: String
    let account: RelayAccount
    let authority: String?
    let tokens = Mutex(AccessTokens())
    private let endpoint: PushEndpoint
    private let policy: EndpointPolicy
    private let tokenEndpoint: PushEndpoint
    private let tokenPolicy: EndpointPolicy

    /// `nil` where the settings are damaged.
    init?(_ settings: RelaySettings, of project: ProjectNumber) {
        self.project = project
        let path = "/v1/projects/\(settings.account.projectID)/messages:send"
        guard let key = try? RSAKey(pem: settings.account.privateKey),
            let endpoint = try? PushEndpoint.parse(operators: settings.base + path),
            let token = try? PushEndpoint.parse(operators: settings.tokenURI)
        else { return nil }
        // Google's names lead to public addresses; what the operator names may lead anywhere.
        let isOwn = !settings.endpoint.isEmpty
        (self.endpoint, tokenEndpoint) = (endpoint, token)
        policy = isOwn ? EndpointPolicy(trusting: endpoint) : EndpointPolicy(listed: [])
        tokenPolicy = isOwn ? EndpointPolicy(trusting: token) : EndpointPolicy(listed: [])
        (url, tokenURL, origin) = (endpoint.url, token.url, endpoint.origin)
        authority = settings.authority.map { String(decoding: $0, as: UTF8.self) }
        account = RelayAccount(
            key: key, keyID: settings.account.keyID, email: settings.account.clientEmail,
            tokenURI: settings.tokenURI)
    }

    func mayDial(_ address: [UInt8]) -> Bool { policy.mayDial(address, for: endpoint) }
    func mayDialForToken(_ address: [UInt8]) -> Bool { tokenPolicy.mayDial(address, for: tokenEndpoint) }
}

/// The senders of all projects that relay, for any thread.
final class RelaySenders: Sendable {
    private struct State {
        var settings: [ProjectNumber: RelaySettings] = [:]
        var senders: [ProjectNumber: RelaySender] = [:]
    }
    private let state: Mutex<State>

    init(_ settings: [ProjectNumber: RelaySettings]) {
        state = Mutex(RelaySenders.next(settings, after: State()))
    }

    /// `nil` where the project has no service account, or the relay is off.
    func sender(_ project: ProjectNumber) -> RelaySender? { state.withLock { $0.senders[project] } }

    /// Returns the projects whose settings have changed.
    func update(_ settings: [ProjectNumber: RelaySettings]) -> Set<ProjectNumber> {
        state.withLock { state in
            let changed = Set(settings.keys).union(state.settings.keys).filter {
                settings[$0] != state.settings[$0]
            }
            if !changed.isEmpty { state = RelaySenders.next(settings, after: state) }
            return changed
        }
    }

    private static func next(_ settings: [ProjectNumber: RelaySettings], after former: State) -> State {
        var next = State(settings: settings)
        for (project, settings) in settings where settings.isOn {
            let known = former.settings[project] == settings ? former.senders[project] : nil
            next.senders[project] = known ?? RelaySender(settings, of: project)
        }
        return next
    }
}
