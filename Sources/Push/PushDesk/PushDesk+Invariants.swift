extension PushDesk {
    /// The first invariant that does not hold; `nil` if all do.
    package var brokenInvariant: String? {
        var counts: [UInt64: Int] = [:]
        for message in messages.values {
            if message.revision > revisions[message.ticket.project, default: 0] {
                return "a message leaves under settings that are to come"
            }
            guard case .fcm(let account) = message.route else { continue }
            counts[account, default: 0] += 1
        }
        for (number, account) in accounts {
            if account.messages != counts.removeValue(forKey: number) ?? 0 {
                return "an account's messages are counted wrong"
            }
            let isPresent = presentAccounts[account.project] == number
            if account.messages == 0, !isPresent { return "an account that nothing uses is kept" }
            if account.tokens.waiting.contains(where: { messages[$0] == nil }) {
                return "a token is kept waiting for a message that has its end"
            }
            if let broken = account.tokens.brokenInvariant { return broken }
        }
        if !counts.isEmpty { return "a message's account is forgotten" }
        for (project, number) in presentAccounts where accounts[number]?.route !== routes[project]?.fcm {
            return "messages of project \(project.rawValue) leave by another account than the settings name"
        }
        return nil
    }
}
