import Credentials
import HTTPMessages
import Model
import Partitions
import Quotas
import Routing
import Testing

@testable import FCMAPI

@Suite("Topic management")
struct TopicTests {
    let harness = APIHarness()
    let sign = [("access_token_auth", "true")]

    private func batch(_ tokens: [String], to: String = "/topics/news") -> APIAction {
        let list = tokens.map { "\"\($0)\"" }.joined(separator: ",")
        return harness.route(
            .post, "/iid/v1:batchAdd", "{\"to\":\"\(to)\",\"registration_tokens\":[\(list)]}", headers: sign)
    }

    @Test("#22 to #27 a batch keeps its places: success is {}, failure a word")
    func batches() throws {
        let action = batch([harness.token(), "nonsense", harness.token(), harness.token(project: 6)])
        #expect(try #require(action.change).devices.count == 2)
        let outcome = Outcome.changes([.changed(Day(1)), .refused(.unregistered)])
        let body = String(
            decoding: harness.api.render(outcome, try #require(action.form)).body, as: UTF8.self)
        #expect(
            body
                == #"{"results":[{},{"error":"INVALID_ARGUMENT"},{"error":"NOT_FOUND"},"#
                + #"{"error":"PERMISSION_DENIED"}]}"#
        )
    }

    @Test("#22 #26 a bad batch gets a plain string")
    func badBatches() {
        let tooMany = batch(Array(repeating: harness.token(), count: 1001)).response
        #expect(tooMany?.status == 400 && object(tooMany?.body ?? [])["error"] is String)
        #expect(batch(Array(repeating: harness.token(), count: 1000)).change?.devices.count == 1000)
        #expect(batch([]).response?.status == 400)
        #expect(batch([harness.token()], to: "/topics/a b").response?.status == 400)
        let body = "{\"to\":\"/topics/a\",\"registration_tokens\":[\"\(harness.token())\"]}"
        let unsigned = harness.route(.post, "/iid/v1:batchAdd", body).response
        #expect(unsigned?.status == 401 && object(unsigned?.body ?? [])["error"] is String)
        let legacy = harness.route(
            .post, "/iid/v1:batchAdd", body, bearer: nil, headers: [("authorization", "key=AAA"), sign[0]])
        #expect(legacy.response?.status == 401)
    }

    @Test("a batch that is refused for what it says costs its project changes of topics")
    func refusedBatch() throws {
        let token = harness.token()
        for (action, cost, status) in [
            (batch([]), 1, 400), (batch([token], to: "/topics/a b"), 1, 400),
            (batch(Array(repeating: token, count: 1001)), 1, 400),
            (harness.route(.post, "/iid/v1:batchRemove", "{", headers: sign), 1, 400),
            (batch(Array(repeating: "nonsense", count: 700)), 700, 200),
            (batch([harness.token(project: 6), "nonsense"]), 2, 200),
        ] {
            guard case .operation(.refusedChanges(let project, let count), let form) = action else {
                Issue.record("\(action)")
                continue
            }
            #expect(project == harness.project.number && count == cost)
            #expect(harness.api.render(.done, form).status == status)
            let quota = QuotaRefusal(kind: .subscriptionChanges, limit: 3000, retryDelay: .seconds(1))
            let refused = harness.api.render(.refused(.quota(quota)), form)
            #expect(refused.status == 429 && object(refused.body)["error"] as? String == "RESOURCE_EXHAUSTED")
        }
        #expect(batch([token, "nonsense", "nonsense"]).change?.falseTokens == 2)
        // A client without a right to a project cannot spend the project's quota.
        let stranger = harness.route(.post, "/iid/v1:batchAdd", "{", bearer: nil, headers: sign)
        if case .respond = stranger {} else { Issue.record("\(stranger)") }
    }

    @Test("a batch that is certainly refused for the quota is answered before its body is read")
    func earlyRefusal() {
        harness.api.refusalOfChange = { project in
            project == self.harness.project.number
                ? QuotaRefusal(kind: .subscriptionChanges, limit: 3000, retryDelay: .seconds(1)) : nil
        }
        let action = harness.route(.post, "/iid/v1:batchAdd", "{", headers: sign)
        guard case .respond(let response) = action else {
            Issue.record("\(action)")
            return
        }
        #expect(response.status == 429 && object(response.body)["error"] as? String == "RESOURCE_EXHAUSTED")
    }

    @Test("#28 #29 create twice is 409, delete of what is not there 404 unless it may be missing")
    func topicSubscriptions() throws {
        let device = harness.token().replacing(":", with: "%3A")
        let path = "/v1/projects/shop/registrations/\(device)/topicSubscriptions"
        let create = try #require(harness.route(.post, "\(path)?topic_name=news", "{}").form)
        #expect(harness.api.render(.changes([.changed(Day(20_000))]), create).status == 200)
        #expect(
            error(harness.api.render(.changes([.unchanged(Day(20_000))]), create)).status == "ALREADY_EXISTS")
        let delete = try #require(harness.route(.delete, "\(path)/news").form)
        #expect(harness.api.render(.changes([.unchanged(nil)]), delete).status == 404)
        let lenient = try #require(harness.route(.delete, "\(path)/news?allow_missing=true").form)
        #expect(harness.api.render(.changes([.unchanged(nil)]), lenient).body == Array("{}".utf8))
    }

    @Test("#30 a path is decoded once, after the split")
    func decoding() throws {
        let device = harness.token().replacing(":", with: "%3A")
        let path = "/v1/projects/shop/registrations/\(device)/topicSubscriptions/news%2525~x"
        #expect(harness.route(.delete, path).change?.topic.description == "news%25~x")
        let slash = "/v1/projects/shop/registrations/a%2Fb/topicSubscriptions/x"
        #expect(error(harness.route(.delete, slash).response).status == "INVALID_ARGUMENT")
    }

    @Test("#31 lists come in pages of at most 2,000, and a walk over the pages meets each topic once")
    func pages() throws {
        let path = "/v1/projects/shop/registrations/\(harness.token())/topicSubscriptions"
        let all = (0..<2000).map {
            Subscription(topic: TopicName(checked: Array("t\($0)".utf8)), since: Day(1))
        }
        func page(_ query: String, of list: [Subscription]) throws -> (names: [String], next: String) {
            let form = try #require(harness.route(.get, path + query).form)
            let page = object(harness.api.render(.subscriptions(list), form).body)
            let entries = page["topicSubscriptions"] as? [[String: Any]] ?? []
            return (
                entries.compactMap { $0["topicName"] as? String }, page["nextPageToken"] as? String ?? "?"
            )
        }
        #expect(try page("", of: all).names.count == 1000)
        let whole = try page("?pageSize=5000", of: all)
        #expect(whole.names.count == 2000 && whole.next == "")
        #expect(try page("?pageSize=5000", of: all + all.prefix(500)).names.count == 2000)
        var walked: [String] = []
        var token = ""
        var left = all
        repeat {
            let (names, next) = try page("?page_size=300&pageToken=\(token)", of: left)
            walked += names
            token = next
            // A topic that was shown may go between two pages, and the walk must still meet all others.
            left.removeAll { $0.topic.description == names.first }
        } while !token.isEmpty
        #expect(walked == all.map(\.topic.description).sorted())
    }

    @Test(
        "a page does not cost a sort of all of the device's names", arguments: [1, 7, 100])
    func comparisons(size: Int) {
        var random = SeededGenerator(seed: 4)
        let names = (0..<2000).map { String(repeating: "a", count: 890) + "\($0)" }.shuffled(using: &random)
        for order in [names, names.sorted(), names.sorted().reversed()] {
            let list = order.map { Subscription(topic: TopicName(checked: Array($0.utf8)), since: Day(1)) }
            var comparisons = 0
            let page = SubscriptionPage(of: list, size: size, after: Array("a".utf8)) {
                comparisons += 1
                return $0 < $1
            }
            #expect(page.shown.map(\.topic.description) == Array(names.sorted().prefix(size)))
            #expect(!page.isLast)
            // An order in which each name comes before those so far is the worst.
            #expect(comparisons < 2000 * (order == names ? 8 : 20))
        }
    }

    @Test(
        "a page's size or token that is none is refused",
        arguments: [
            "pageSize=-1", "pageSize=x", "pageToken=%21", "page_token=A",
        ])
    func badPages(query: String) {
        let path = "/v1/projects/shop/registrations/\(harness.token())/topicSubscriptions?\(query)"
        #expect(error(harness.route(.get, path).response).http == 400)
    }

    @Test(
        "a listing's token names a partition that there is",
        arguments: [
            "x", "1", "1.2.3", "4096.0", "32.0", "-1.0", "1.-1", "99999.0", ".",
        ])
    func badListings(token: String) {
        #expect(
            error(harness.route(.get, "/v1/projects/shop/topics?pageToken=\(token)").response).http == 400)
        #expect(
            error(harness.route(.get, "/v1/projects/shop/registrations?pageToken=\(token)").response).http
                == 400)
    }

    @Test("#32 iid/info shows the topics with their dates when asked for details")
    func info() throws {
        let list = [Subscription(topic: TopicName(checked: Array("news".utf8)), since: Day(20_777))]
        let plain = try #require(harness.route(.get, "/iid/info/\(harness.token())", headers: sign).form)
        let short = object(harness.api.render(.subscriptions(list), plain).body)
        #expect(short["rel"] == nil && short["authorizedEntity"] as? String == "5")
        let path = "/iid/info/\(harness.token())?details=true"
        let form = try #require(harness.route(.get, path, headers: sign).form)
        let long = object(harness.api.render(.subscriptions(list), form).body)
        let rel = long["rel"] as? [String: [String: [String: String]]]
        #expect(rel?["topics"]?["news"]?["addDate"] == "2026-11-20")
        #expect(object(harness.api.render(.subscriptions([]), form).body)["rel"] == nil)
        let gone = harness.api.render(.refused(.unregistered), form)
        #expect(gone.status == 404 && object(gone.body)["error"] is String)
        let foreign = harness.route(.get, "/iid/info/\(harness.token(project: 6))", headers: sign).response
        #expect(
            foreign?.status == 403 && object(foreign?.body ?? [])["error"] as? String == "PERMISSION_DENIED")
    }

    @Test("#33 rel/topics is answered {} however often it is asked")
    func relations() throws {
        let path = "/iid/v1/\(harness.token())/rel/topics/news"
        for (method, kind) in [(HTTPMethod.post, SubscriptionChange.Kind.subscribe), (.delete, .unsubscribe)]
        {
            let action = harness.route(method, path, headers: sign)
            #expect(action.change?.kind == kind)
            let form = try #require(action.form)
            for outcome in [ChangeOutcome.changed(Day(1)), .unchanged(Day(1)), .unchanged(nil)] {
                let response = harness.api.render(.changes([outcome]), form)
                #expect(response.status == 200 && response.body == Array("{}".utf8))
            }
        }
        #expect(harness.route(.put, path, headers: sign).response?.status == 404)
    }

    @Test(
        "#24 #47 a batch of which a quota admits nothing is 429, of which it admits some is a word for each")
    func quotas() throws {
        let form = try #require(batch([harness.token(), harness.token()]).form)
        let quota = QuotaRefusal(kind: .subscriptionChanges, limit: 3000, retryDelay: .max)
        let whole = harness.api.render(.refused(.quota(quota)), form)
        #expect(whole.status == 429 && object(whole.body)["error"] as? String == "RESOURCE_EXHAUSTED")
        let some = harness.api.render(.changes([.changed(Day(1)), .refused(.quota(quota))]), form)
        #expect(
            String(decoding: some.body, as: UTF8.self) == #"{"results":[{},{"error":"RESOURCE_EXHAUSTED"}]}"#)
        let full = harness.api.render(.changes([.refused(.tooManyTopics), .unchanged(Day(1))]), form)
        #expect(
            String(decoding: full.body, as: UTF8.self) == #"{"results":[{"error":"TOO_MANY_TOPICS"},{}]}"#)
    }

    @Test("#41 #42 device SDKs subscribe by their own credential")
    func deviceForms() throws {
        let credential = String(decoding: harness.keys.credential(secret: 99), as: UTF8.self)
        let path = "/v1/projects/shop/registrations/\(harness.token())/topicSubscriptions/100%:subscribe"
        let modern = harness.route(
            .post, path, bearer: nil,
            headers: [("x-goog-api-key", "tck_app"), ("x-goog-firebase-installations-auth", credential)])
        let proof = harness.keys.parseProof(credential.utf8)
        #expect(try #require(modern.change).topic.description == "100%")
        #expect(modern.change?.caller == proof.map { .device($0) })
        let form = "sender=\(harness.token())&X-gcm.topic=/topics/a&X-scope=/topics/a&delete=true"
        let classic = harness.route(
            .post, "/iid/register", form, bearer: nil,
            headers: [("authorization", "AidLogin 1:\(credential)")])
        #expect(classic.change?.kind == .unsubscribe)
        let rendered = harness.api.render(.changes([.unchanged(nil)]), try #require(classic.form))
        #expect(String(decoding: rendered.body, as: UTF8.self) == "token=\(harness.token())")
    }
}

@Suite("Access tokens")
struct TokenTests {
    @Test("are good until they expire, and only as they were made")
    func lifetime() {
        let harness = APIHarness()
        harness.api.directory.accounts["0a"] = .init(project: ProjectNumber(5), email: "e", publicKey: "")
        let (token, seconds) = harness.api.authenticator.makeAccessToken(
            ProjectNumber(5), key: "0a", now: harness.now)
        #expect(seconds == 3599)
        let text = String(decoding: token, as: UTF8.self)
        #expect(
            harness.route(
                .post, "/v1/projects/shop/messages:send", #"{"message":{"topic":"a"}}"#, bearer: text
            )
            .sent != nil)
        let request = HTTPRequest(method: .get, target: [])
        request.fields.append(name: "authorization".utf8, value: "Bearer \(text)".utf8)
        let late = WallTime(milliseconds: harness.now.milliseconds + 3_600_001)
        #expect(harness.api.authenticator.principal(request, harness.api.directory, now: late) == nil)
        for index in token.indices.dropFirst(4) {
            var changed = token
            changed[index] = changed[index] == 65 ? 66 : 65
            let action = harness.route(
                .post, "/v1/projects/shop/messages:send", #"{"message":{"topic":"a"}}"#,
                bearer: String(decoding: changed, as: UTF8.self))
            #expect(action.sent == nil, "byte \(index)")
        }
    }

    @Test("#34 are exchanged for an assertion that is right in every part")
    func exchange() throws {
        let harness = APIHarness()
        let uri = "https://oauth2.googleapis.com/token"
        let key = try #require(ServiceAccountKey.make())
        let file = ServiceAccountFile(
            project: harness.project, tokenURI: uri, key: key, keyID: [UInt8](repeating: 7, count: 20))
        harness.api.directory.accounts[file.keyID] = .init(
            project: harness.project.number, email: file.email, publicKey: file.key.open)
        // AssertionTests and the SDK's tests have good signatures. Here the API refuses every assertion.
        let head = Base64URL.encode("{\"alg\":\"none\",\"kid\":\"\(file.keyID)\"}".utf8)
        let symmetric = Base64URL.encode("{\"alg\":\"HS256\",\"kid\":\"\(file.keyID)\"}".utf8)
        let unknown = Base64URL.encode(#"{"alg":"RS256","kid":"nobody"}"#.utf8)
        let unsigned = Base64URL.encode("{\"alg\":\"RS256\",\"kid\":\"\(file.keyID)\"}".utf8)
        let claims = Base64URL.encode("{\"iss\":\"\(file.email)\",\"aud\":\"\(uri)\"}".utf8)
        func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }
        for assertion in [
            "", "a", "a.b", "a.b.c.d", "\(text(head)).\(text(claims)).",
            "\(text(symmetric)).\(text(claims)).AAAA",
            "\(text(unknown)).\(text(claims)).AAAA", "\(text(unsigned)).\(text(claims)).AAAA",
        ] {
            let body =
                "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=\(assertion)"
            let response = harness.route(.post, "/token", body, bearer: nil).response
            #expect(
                response?.status == 400
                    && object(response?.body ?? [])["error"] as? String == "invalid_grant", "\(assertion)")
        }
        let other = harness.route(.post, "/token", "grant_type=password", bearer: nil).response
        #expect(object(other?.body ?? [])["error"] as? String == "unsupported_grant_type")
    }
}

@Suite("Dates")
struct DateTests {
    @Test(
        "are civil dates",
        arguments: [
            (0, "1970-01-01"), (59, "1970-03-01"), (11_016, "2000-02-29"), (20_777, "2026-11-20"),
            (47_540, "2100-02-28"), (47_541, "2100-03-01"),
        ])
    func dates(day: Int, text: String) { #expect(Timestamp.date(day) == text) }
}
