// Written by `npm run build` in packages/studio.
[
    ("index-DCelCc80.css", include_bytes!("index-DCelCc80.css").as_slice()),
    ("logo-KQFvU7Ez.svg", include_bytes!("logo-KQFvU7Ez.svg").as_slice()),
    ("studio-Cyi6CkAQ.js", include_bytes!("studio-Cyi6CkAQ.js").as_slice()),
]
