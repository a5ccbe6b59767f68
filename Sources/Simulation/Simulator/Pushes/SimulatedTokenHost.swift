import Model

/// The host of access tokens for FCM, and what FCM knows of them.
final class SimulatedTokenHost {
    private unowned let world: ClusterSimulation
    private var ends: [String: MonotonicTime] = [:]
    private var settings: [String: UInt64] = [:]
    /// Until when the host refuses a project's account.
    private var refusesUntil: [ProjectNumber: MonotonicTime] = [:]

    init(_ world: ClusterSimulation) { self.world = world }

    func token(
        for project: ProjectNumber, _ setting: UInt64, isWell: Bool
    ) -> SimulatedPushServices.Answer {
        if !isWell, world.chance(world.options.tokensRefusedPerMille) {
            refusesUntil[project] = world.now + world.roll(.seconds(5))
        }
        if !isWell, let until = refusesUntil[project], world.now < until {
            world.count("accounts refused")
            return .init(status: 400, body: "{\"error\":\"invalid_grant\"}")
        }
        let life = world.options.accessTokenSeconds
        let token = "token-\(project.rawValue)-\(ends.count)"
        ends[token] = world.now + .seconds(life)
        settings[token] = setting
        return .init(
            status: 200,
            body: "{\"access_token\":\"\(token)\",\"expires_in\":\(life),\"token_type\":\"Bearer\"}")
    }

    /// Whether FCM takes a token. Now and then all tokens of a project end before their time.
    func takes(_ token: String, of message: PushRequest, isWell: Bool) -> Bool {
        let project = message.job.project
        if settings[token] != message.setting {
            world.violate("former", "a message comes to FCM with an access token of another account")
        }
        if !isWell, world.chance(world.options.tokensRefusedPerMille / 4) {
            let prefix = "token-\(project.rawValue)-"
            for known in ends.keys where known.hasPrefix(prefix) { ends[known] = world.now }
        }
        return ends[token].map { world.now < $0 } ?? false
    }
}
