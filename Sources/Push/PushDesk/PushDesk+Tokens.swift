import Model
import PushMessages
import PushScheduling

// Messages that leave with a token: an access token for FCM, a signed one for Apple.

extension PushDesk {
    // MARK: FCM

    /// Asks the account's tokens, and carries out what they say.
    mutating func decide(
        _ account: UInt64, now: MonotonicTime, into effects: inout [Effect],
        _ body: (inout AccessTokens, inout [AccessTokens.Effect]) -> Void
    ) {
        guard var known = accounts.removeValue(forKey: account) else { return }
        var found: [AccessTokens.Effect] = []
        body(&known.tokens, &found)
        accounts[account] = known
        carryOut(found, of: account, now: now, into: &effects)
    }

    private mutating func carryOut(
        _ found: [AccessTokens.Effect], of account: UInt64, now: MonotonicTime, into effects: inout [Effect]
    ) {
        guard let route = accounts[account]?.route, let project = accounts[account]?.project else { return }
        for effect in found {
            switch effect {
            case .use(let number, let token):
                // The message has not left, and goes soon under the present settings.
                if presentAccounts[project] != account {
                    finish(number, PushInFlight.End(.unsent(PushInFlight.changed)), into: &effects)
                    continue
                }
                guard let end = messages[number]?.underWay.leaves(relayed: token, now: now) else {
                    guard let message = messages[number] else { continue }
                    let way = Way.fcm(route, token: token)
                    effects.append(.send(number, message.ticket, way, message.content))
                    continue
                }
                finish(number, end, into: &effects)
            case .giveUp(let number, let outcome):
                finish(number, PushInFlight.End(outcome), into: &effects)
            case .fetch(let number):
                let request = nextNumber()
                fetches[request] = Fetch(
                    account: account, number: number, project: project, host: route.tokens.url)
                effects.append(.fetchToken(request, project, route))
            }
        }
    }

    /// With another token the message leaves at once.
    mutating func judge(
        _ number: UInt64, _ result: PushResult, by account: UInt64, now: Instant, into effects: inout [Effect]
    ) {
        guard var known = accounts.removeValue(forKey: account), var message = messages[number] else {
            return
        }
        var found: [AccessTokens.Effect] = []
        let end = message.underWay.judge(
            relay: result, number: number, tokens: &known.tokens, isFormer: isFormer(message), now: now,
            into: &found)
        accounts[account] = known
        messages[number] = message
        if let end { finish(number, end, into: &effects) }
        carryOut(found, of: account, now: now.monotonic, into: &effects)
    }

    /// A message of the account has its end.
    mutating func leave(_ account: UInt64) {
        accounts[account]?.messages -= 1
        forgetIfIdle(account)
    }

    mutating func forgetIfIdle(_ account: UInt64) {
        guard let known = accounts[account], known.messages == 0, presentAccounts[known.project] != account
        else { return }
        accounts[account] = nil
    }

    // MARK: Apple

    /// The token for a message that leaves now. The message must not leave if this throws; the error is told
    /// by `answered`, as what kept the request from being made.
    public mutating func authorization(for number: UInt64, now: WallTime) throws -> String {
        guard let message = messages[number], case .apns(let route, _) = message.route else {
            throw NoToken(description: "the message has its end")
        }
        let key = AppleKey(route.pool)
        guard let token = try appleTokens[key]?.authorization(now: now) else {
            throw NoToken(description: PushInFlight.changed)
        }
        guard messages[number]?.underWay.leaves(with: token) ?? false else {
            throw NoToken(description: PushInFlight.refusedToken)
        }
        return token
    }

    mutating func judge(
        _ number: UInt64, _ result: PushResult, of push: APNsPush, by route: APNsRoute,
        on connection: APNsConnectionID?, now: Instant, into effects: inout [Effect]
    ) {
        guard var message = messages[number] else { return }
        let key = AppleKey(route.pool)
        let known = appleTokens[key]
        // The key may have left the settings long ago.
        var tokens = known ?? APNsTokens(route.signer, bounds.apnsTokens)
        let step = message.underWay.judge(
            apple: result, of: push, tokens: &tokens, oldNews: &oldNews, isFormer: isFormer(message), now: now
        )
        if known != nil { appleTokens[key] = tokens }
        messages[number] = message
        if step.renewsConnection { effects.append(.renew(route.pool, connection)) }
        if let end = step.end { return finish(number, end, into: &effects) }
        effects.append(.send(number, message.ticket, .apns(route, push), message.content))
    }
}

/// Why there is no token for a message. The text is for an operator.
struct NoToken: Error, CustomStringConvertible {
    var description: String
}
