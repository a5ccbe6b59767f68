import Credentials

/// A row of the table of routes (`Route.all`): one method and path of the API. The dispatch, the longest
/// body, the roles of operators and the OpenAPI document come from it. A value without references: the router
/// makes a copy of one for each request.
struct Route: Sendable {
    enum Method: Int, CaseIterable {
        case get, post, patch, delete
        /// Each method that has no row of the same path.
        case others
    }

    /// Who may ask, on a server that is not for development.
    enum Access {
        case anyone
        /// A backend of the project, or an operator with a role.
        case backend
        /// An app with an API key or an installation; or a backend.
        case app
        /// The device by its credential or its installation's token; or a backend.
        case device
        /// The device by its installation's refresh token.
        case refreshToken
        /// A phone by the login of its check-in.
        case phone
        /// A sender of Web Push, with a VAPID token if the subscription demands one.
        case sender
        /// Over the admin socket, or by an operator's token with at least this role.
        case operators(OperatorRole)
        /// The same, or a backend of the project.
        case operatorsAndBackends(OperatorRole)
    }

    enum Body {
        case none, json, form
        /// A form of which the server wants a few short fields.
        case shortForm
        /// A message of 4,096 bytes with every byte escaped, and the JSON around it.
        case message
        /// A thousand tokens.
        case batch
        /// The settings of a push service, which may have certificates of 64 KiB.
        case settings
        case encrypted

        var bytesMax: Int {
            switch self {
            case .none, .json, .shortForm, .encrypted: BodyBound.small
            case .form: 32 << 10
            case .message: 64 << 10
            case .batch, .settings: BodyBound.batch
            }
        }
    }

    let method: Method
    /// Segments in braces take any text. The last one may end with a colon and a verb.
    let path: StaticString
    let endpoint: Endpoint
    let access: Access
    let body: Body
    /// Names of the query's parameters, with blanks between them.
    let query: StaticString
    let summary: StaticString

    init(
        _ method: Method, _ path: StaticString, to endpoint: Endpoint, by access: Access, body: Body = .none,
        query: StaticString = "", about summary: StaticString
    ) {
        self.method = method
        self.path = path
        self.endpoint = endpoint
        self.access = access
        self.body = body
        self.query = query
        self.summary = summary
    }

    /// The least role of an operator that may ask, if the row says one.
    var role: OperatorRole? {
        switch access {
        case .operators(let role), .operatorsAndBackends(let role): role
        default: nil
        }
    }

    /// The same operation as that of another row, at another path.
    static func alias(_ path: StaticString, of route: Route, _ method: Method? = nil) -> Route {
        Route(
            method ?? route.method, path, to: route.endpoint, by: route.access, body: route.body, about: "")
    }

    /// Whether the row is in the OpenAPI document: it is not another row's alias.
    var isDocumented: Bool { summary.utf8CodeUnitCount > 0 }
}

/// All operations of the API. The name is the operation's id in the OpenAPI document.
enum Endpoint: String, CaseIterable, Sendable {
    case send, showMessage, listTopics, showTopic, showQuotas, showWebPushKey
    case register, listRegistrations, listen, acknowledge, showRegistration, patchRegistration, unregister
    case createSubscription, listSubscriptions, showSubscription, patchSubscription, endSubscription
    case subscribe, unsubscribe
    case createInstallation, deleteInstallation, generateAuthToken
    case batchAdd, batchRemove, classicRegister, tokenInfo, addRelation, removeRelation
    case exchangeToken, checkIn, registerAppToken
    case openSocket, postPush, discoverPush
    case showHealth, showReadiness, showMetrics, showDocument
    case showCluster, drainNode, uncordonNode, refuseCertificate, acceptCertificate, showAudit
    case listCredentials, createCredential, revokeCredential, expireCredential, rotateCredential
    case listServerKeys, rotateSigningKey, rotateRegistrationKey, retireRegistrationKey
    case listProjects, createProject, deleteProject, createProjectCredential
    case showProjectQuotas, setProjectQuotas, subscribeDevices, unsubscribeDevices
    case showPush, endPush, setWebPush, setAPNs, setRelay, endWebPush, endAPNs, endRelay
    case servePush, endPushService, removeAPNsKey
    case forgetEmulated, listEmulatedMessages, forgetEmulatedMessages
    case listFaults, addFault, forgetFaults
}
