import Credentials
import HTTPMessages
import Model
import RegistrationIDs
import Routing

// /v1/projects/{project}/installations/… and the registrations of apps that have an installation.
//
// Source: the Firebase Installations API v1 and fcmregistrations.googleapis.com v1, as the SDKs for the web
// and for iOS call them. An installation is a device: its FID is the device's, and the server creates the
// FID, whatever FID the app proposes.

extension RequestRouter {
    /// The token of an app's installation, if the request has one that counts. `FIS TOKEN` and the bare token
    /// are the same.
    var installation: (token: InstallationToken, device: Registration)? {
        guard var text = request.fields["x-goog-firebase-installations-auth"] else { return nil }
        let scheme = Array("FIS ".utf8)
        if text.starts(with: scheme) { text = text.dropFirst(scheme.count) }
        let keys = api.signingKeys.verifying(now: now)
        guard
            let token = keys.lazy.compactMap({ InstallationToken(text, signedWith: $0.material) }).first,
            now < token.end, case .success(let device) = read(api.keys.decipher(token.registrationToken))
        else { return nil }
        return (token, device)
    }

    /// Whether the request has the auth token of an installation as the web SDK writes it: `FIS TOKEN`. That
    /// SDK deletes its registration and creates another one under the same token, for example when the page
    /// has another key. So only the address ends, and the device stays.
    var isWebInstallation: Bool { isFromWebSDK && installation != nil }

    /// Whether the auth token is written as Firebase's SDK for the web writes it.
    private var isFromWebSDK: Bool {
        request.fields["x-goog-firebase-installations-auth"]?.starts(with: "FIS ".utf8) ?? false
    }

    static let noInstallation = APIError(
        status: .unauthenticated,
        message: "The installation's auth token is missing, too old or not from this server.")

    func createInstallation(_ name: String) throws(APIError) -> APIAction {
        let found = try project(name, stranger: RequestRouter.appKeyWanted)
        guard case .known(let project) = found else { return .makeProject(name) }
        try mayRegister(in: project)
        try ignoredBody()
        return .operation(
            .register(project: project.number), ResponseForm(kind: .installation, project: project))
    }

    /// The device in the path, and its credential from `FIS_v2 REFRESHTOKEN`.
    private func refreshing(
        _ name: String
    ) throws(APIError) -> (
        project: Project, device: Registration, fid: [UInt8], token: RefreshToken, mac: DeviceMAC
    ) {
        let stranger = APIError(
            status: .unauthenticated, message: "The installation's refresh token is missing or malformed.")
        let scheme = Array("FIS_v2 ".utf8)
        guard let field = request.fields["authorization"], field.starts(with: scheme),
            let token = RefreshToken(field.dropFirst(scheme.count)),
            let mac = api.keys.parseProof(token.credential)
        else { throw stranger }
        // SDKs forget an installation on 401 and 404, and a missing project proves nothing of the device.
        let project = try known(name, installation: .permissionDenied)
        let fid = try segment(4)
        let device: Registration
        do throws(APIError) { device = try registration(fid, in: project, field: "name") } catch {
            throw fate(or: error)
        }
        return (project, device, fid, token, mac)
    }

    func generateAuthToken(_ name: String) throws(APIError) -> APIAction {
        try ignoredBody()
        let (project, device, fid, refresh, mac) = try refreshing(name)
        try mayCall(in: project)
        let token = InstallationToken(fid: Array(fid.prefix(22)), proof: refresh.proof, now: now)
        return .operation(
            .device(device, by: .device(mac)), ResponseForm(kind: .authToken(signed(token)), project: project)
        )
    }

    private func signed(_ token: InstallationToken) -> [UInt8] {
        token.signed(with: api.signingKeys.signing(now: now).material)
    }

    func deleteInstallation(_ name: String) throws(APIError) -> APIAction {
        let (project, device, _, _, mac) = try refreshing(name)
        try mayCall(in: project)
        return .operation(
            .unregister(device, by: .device(mac)), ResponseForm(kind: .endInstallation, project: project))
    }

    // MARK: Registrations of an installation

    /// `POST …/registrations` with the auth token of an installation, and `PATCH …/registrations/R`: the same
    /// device as before, with its topics, and the address of its push service if the body has one.
    func registerInstallation(
        _ installation: (token: InstallationToken, device: Registration), in project: Project
    ) throws(APIError) -> APIAction {
        guard installation.device.project == project.number else { throw .permissionDenied }
        let form = ResponseForm(
            kind: .upsert(token: installation.token.registrationToken), project: project)
        guard let transport = try transport(in: project) else {
            try mayCall(in: project)
            return .operation(.device(installation.device, by: .backend), form)
        }
        if let refusal = refusalOfDeviceChange() { throw exhausted(refusal, project) }
        return .operation(.setTransport(installation.device, by: .backend, transport), form)
    }

    /// The address at a push service in the body; `nil` if the body is empty or has none.
    func transport(in project: Project) throws(APIError) -> Transport? {
        guard !request.body.isEmpty else { return nil }
        let reader = TransportReader(
            project: api.directory.webPush[project.number], isFromWebSDK: isFromWebSDK)
        return try reader.read(try json())
    }

    func patchRegistration(_ name: String) throws(APIError) -> APIAction {
        let project = try known(name, installation: RequestRouter.noInstallation)
        guard let installation else { throw RequestRouter.noInstallation }
        let device = try registration(try segment(4), in: project, field: "name")
        guard installation.device.isSameDevice(as: device) else { throw .permissionDenied }
        return try registerInstallation(installation, in: project)
    }

    /// `GET …/registrations/R`, by a backend or by the device itself.
    func showRegistration(_ name: String) throws(APIError) -> APIAction {
        let project = try known(name)
        let text = try segment(4)
        let device = try ownRegistration(in: project)
        let shown = String(decoding: text, as: UTF8.self)
        let caller = try caller(project, device)
        try mayCall(in: project)
        return .operation(
            .device(device, by: caller),
            ResponseForm(kind: .device(registration: shown), project: project))
    }
}

extension Registration {
    /// Whether both name one device, whichever keys made their texts.
    func isSameDevice(as other: Registration) -> Bool {
        project == other.project && partition == other.partition && index == other.index
            && nonce == other.nonce
    }
}
