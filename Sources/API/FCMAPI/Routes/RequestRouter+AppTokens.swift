import Credentials
import HTTPMessages
import Model
import RegistrationIDs
import Routing

// The iOS SDK that registers with tokens: POST /checkin and POST /register.
//
// Source: device-provisioning.googleapis.com and fcmtoken.googleapis.com, as FirebaseMessaging 12.19 asks and
// reads them. It takes the numbers of a check-in from JSON numbers only, ignores the status of every answer,
// and shows its login as `AidLogin ID:SECRET`.

extension RequestRouter {
    /// The login of a check-in that the request shows; nobody has checked it.
    var shownLogin: DeviceLogin? {
        let scheme = Array("AidLogin ".utf8)
        guard let field = request.fields["authorization"], field.starts(with: scheme) else { return nil }
        return DeviceLogin(field.dropFirst(scheme.count))
    }

    /// `POST /checkin`. A phone that shows a genuine login keeps it; everyone else gets a new one, and never
    /// one with an id of the request's choice (rule: logins-are-bound).
    func checkIn() throws(APIError) -> APIAction {
        if let refusal = refusalOfDeviceChange() {
            throw exhausted(refusal, Project(id: "", number: ProjectNumber(0)))
        }
        var id: Int64?
        var secret: Int64?
        let body = try json()
        guard body.kind == .object else { throw .badJSON("The body must be an object.") }
        try body.forEachUniqueField { (name, value) throws(APIError) in
            if Schema.equal(name, "id") { id = value.integer }
            if Schema.equal(name, "security_token") { secret = value.integer }
        }
        var login = api.keys.newLogin(seed: self.id)
        if let id, let secret, id > 0, secret > 0 {
            let shown = DeviceLogin(id: UInt64(id), secret: UInt64(secret))
            if api.keys.isGenuine(shown) {
                login = shown
            } else if !api.areKeysCurrent() {
                // Another id would cut the phone off from its topics until it asks for another token.
                throw APIError(.unavailable("its keys are not up to date"), project: "", field: "id")
            }
        }
        return .respond(
            API.object { out in
                out.key("android_id")
                out.number(login.id)
                out.key("security_token")
                out.number(login.secret)
                out.key("time_msec")
                out.number(now.milliseconds)
                out.field("digest", "")
            })
    }

    /// `POST /register`: the token of an app's installation, bound to the phone's login, and the app's
    /// address at Apple's push service; with `delete=true` the end of that address. The auth token decides
    /// which device it is: in its first run an SDK names in `appid` the FID that it proposed itself.
    func appToken() -> APIAction {
        func fail(_ word: String) -> APIAction { .respond(API.classic("Error=\(word)")) }
        let body: [UInt8]
        do throws(APIError) { body = try self.body() } catch { return fail("INVALID_PARAMETERS") }
        guard let form = Form(body, wanted: "apns_token", "app", "delete") else {
            return fail("INVALID_PARAMETERS")
        }
        guard let installation, let login = shownLogin else { return fail("AUTHENTICATION_FAILED") }
        if let refusal = refusalOfDeviceChange() { return fail(API.appTokenWord(.quota(refusal))) }
        guard api.keys.isGenuine(login) else {
            // The SDK forgets its login at RST, and begins with another check-in.
            return fail(api.areKeysCurrent() ? "RST" : API.appTokenWord(.unavailable("")))
        }
        let project: Project
        switch api.directory.owner(of: installation.device) {
        case .success(let owner): project = owner
        case .failure(let refusal): return fail(API.appTokenWord(refusal))
        }
        let app = form["app"] ?? request.fields.string("app") ?? ""
        if form["delete"] == "true" {
            return .operation(
                .endTransport(installation.device, by: .backend, .apns),
                ResponseForm(kind: .appToken(Array("deleted=\(app)".utf8)), project: project))
        }
        guard let token = api.keys.bind(installation.token.registrationToken, to: login) else {
            return fail(API.appTokenWord(.unregistered))
        }
        let answer = ResponseForm(kind: .appToken(Array("token=".utf8) + token), project: project)
        guard let address = form["apns_token"] else {
            return .operation(.device(installation.device, by: .backend), answer)
        }
        do throws(APIError) {
            let transport = try TransportReader(project: nil).apns(tuple: address, app: app)
            return .operation(.setTransport(installation.device, by: .backend, transport), answer)
        } catch { return fail("INVALID_PARAMETERS") }
    }

    /// The device's own right to change its topics with `POST /iid/register`: its credential, or the login to
    /// which the shown token is bound.
    func classicCaller(_ token: [UInt8]) -> Caller? {
        if let credential { return .device(credential) }
        guard let login = shownLogin, api.keys.isGenuine(login), api.keys.isBound(token, to: login) else {
            return nil
        }
        return .backend
    }
}

extension API {
    static func classic(_ text: String) -> HTTPResponse { classic(Array(text.utf8)) }

    /// The text of an answer to the classic SDK, whatever the status of another API would be.
    static func classic(_ text: [UInt8]) -> HTTPResponse {
        HTTPResponse(
            status: 200, fields: [("content-type", "text/plain; charset=UTF-8")], body: text)
    }

    /// The words after `Error=`. At the second word of a passing fault the SDK asks ten times more, after 1,
    /// 2, 4 … seconds.
    static func appTokenWord(_ refusal: Refusal) -> String {
        switch refusal {
        case .unavailable, .deadlineExceeded, .quota: "\(classicWord(refusal)):PHONE_REGISTRATION_ERROR"
        default: classicWord(refusal)
        }
    }
}
