import Model
import PushMessages
import PushScheduling

// Settings that change (rule: former-keys-say-nothing).

extension PushDesk {
    /// Projects have other settings from now on. What is under way left under the former ones.
    ///
    /// - Parameter next: the routes of the projects whose settings have changed, and of no others.
    public mutating func change(_ next: [ProjectNumber: PushRoutes], into effects: inout [Effect]) {
        let former = pools
        for (project, next) in next.sorted(by: { $0.key < $1.key }) {
            #if DEBUG
                if planted.contains(.keepRoutes) { late[project] = routes[project] }
                if planted.contains(.raiseLate) { late[project] = next }
            #endif
            routes[project] = next
            if !raisesLate { revisions[project, default: 0] += 1 }
            change(next.fcm, of: project)
            for route in next.apns.values { makeTokens(route) }
        }
        let present = pools
        // A key that comes back must not change its token too soon.
        if appleTokens.count > Self.keysMax {
            let keys = Set(present.map(AppleKey.init))
            appleTokens = appleTokens.filter { keys.contains($0.key) }
        }
        let retired = former.subtracting(present).sorted { "\($0)" < "\($1)" }
        effects += retired.map { .renew($0, nil) }
    }

    /// At this many keys of Apple's the desk forgets those that no project uses.
    private static var keysMax: Int { 4096 }

    /// The pools that some project uses.
    private var pools: Set<APNsPool> {
        Set(routes.values.flatMap { $0.apns.values.map(\.pool) })
    }

    private mutating func makeTokens(_ route: APNsRoute) {
        let key = AppleKey(route.pool)
        guard appleTokens[key] == nil else { return }
        var tokens = APNsTokens(route.signer, bounds.apnsTokens)
        #if DEBUG
            tokens.planted = plantedInTokens
        #endif
        appleTokens[key] = tokens
    }

    private mutating func change(_ route: FCMRoute?, of project: ProjectNumber) {
        let former = presentAccounts[project]
        if let former, accounts[former]?.route === route { return }
        presentAccounts[project] = nil
        if let route {
            var tokens = AccessTokens(bounds.accessTokens)
            #if DEBUG
                tokens.planted = plantedInTokens
                if planted.contains(.keepTokens), let former { tokens = accounts[former]?.tokens ?? tokens }
            #endif
            let number = nextNumber()
            accounts[number] = Account(project: project, route: route, tokens: tokens)
            presentAccounts[project] = number
        }
        if let former { forgetIfIdle(former) }
    }

    // MARK: Planted bugs

    private var raisesLate: Bool {
        #if DEBUG
            return planted.contains(.raiseLate)
        #else
            return false
        #endif
    }

    mutating func routesNow(of project: ProjectNumber) -> PushRoutes? {
        #if DEBUG
            if planted.contains(.keepRoutes), let kept = late.removeValue(forKey: project) { return kept }
        #endif
        return routes[project]
    }

    #if DEBUG
        /// The project's first message after a change has the former revision.
        mutating func raiseLate(_ project: ProjectNumber) {
            guard planted.contains(.raiseLate), late.removeValue(forKey: project) != nil else { return }
            revisions[project, default: 0] += 1
        }
    #endif
}
